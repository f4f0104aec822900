"""What packages say of the sources is true: recipes set options that there are, the source archive has what a build reads,
and the page of the Python package has no link that leads nowhere outside of the sources."""

import ast
import re
import subprocess
import unittest
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    tomllib = None

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
LINK = re.compile(r"\]\(([^)\s]+)\)|<((?:https?:)[^>\s]+)>")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def options():
    """Names of the options of the build."""
    found = set()
    for file in ("cmake/options.cmake", "tools/CMakeLists.txt", "packaging/CMakeLists.txt"):
        text = read(file)
        found |= set(re.findall(r"^\s*option\((\w+)", text, re.MULTILINE))
        found |= set(re.findall(r'^\s*set\((ICECORE_\w+) "[^"]*" CACHE', text, re.MULTILINE))
        found |= {f"ICECORE_{name}" for name in re.findall(r"^icecore_optional\((\w+)", text, re.MULTILINE)}
    return found


class Recipes(unittest.TestCase):
    def test_options_of_recipes_are_options_of_the_build(self):
        known = options()
        for file in ("packaging/spack/package.py", "packaging/conda/recipe.yaml", "scripts/debian-packages", "pyproject.toml"):
            named = set(re.findall(r"(?:-D|\b)(ICECORE_[A-Z_]+)\b", read(file)))
            self.assertTrue(named, file)
            self.assertEqual(sorted(named - known - {"ICECORE_CHECK_INSIDE"}), [], file)

    def test_spack_recipe_is_a_package_of_this_version_with_its_variants(self):
        tree = ast.parse(read("packaging/spack/package.py"))
        (package,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
        self.assertEqual(package.name, "Icecore")
        calls = [node for node in ast.walk(package) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        first = lambda name: [call.args[0].value for call in calls if call.func.id == name]  # noqa: E731
        version = re.search(r"project\(icecore VERSION ([\d.]+)", read("CMakeLists.txt"))[1]
        self.assertEqual(first("version"), [version])
        conditions = {keyword.value.value for call in calls for keyword in call.keywords if keyword.arg == "when"} | set(first("when"))
        self.assertEqual(sorted({condition.lstrip("+") for condition in conditions} - set(first("variant"))), [])

    def test_conda_recipe_has_this_version(self):
        version = re.search(r"project\(icecore VERSION ([\d.]+)", read("CMakeLists.txt"))[1]
        self.assertEqual(re.search(r"^  version: (.+)$", read("packaging/conda/recipe.yaml"), re.MULTILINE)[1], version)


class Wheel(unittest.TestCase):
    def test_page_of_the_package_has_no_link_into_the_sources(self):
        text = read("bindings/python/README.md")
        self.assertIn("```python", text)
        for link in LINK.findall(text):
            self.assertRegex(link[0] or link[1], r"^https?://", "this leads nowhere on a page of an index of packages")

    def test_page_and_licence_are_what_the_package_names(self):
        project = tomllib.loads(read("pyproject.toml")) if tomllib else self.skipTest("this Python reads no TOML")
        self.assertEqual(project["project"]["readme"], "bindings/python/README.md")
        for name, address in project["project"]["urls"].items():
            self.assertRegex(address, r"^https://", name)

    def test_source_archive_has_every_folder_that_its_build_reads(self):
        project = tomllib.loads(read("pyproject.toml")) if tomllib else self.skipTest("this Python reads no TOML")
        included = project["tool"]["scikit-build"]["sdist"]["include"]
        wheel = re.search(r"if\(SKBUILD\)(.*?)^endif\(\)", read("CMakeLists.txt"), re.DOTALL | re.MULTILINE)[1]
        for folder in [*re.findall(r"add_subdirectory\((\S+)\)", wheel), "src", "cmake"]:
            self.assertTrue(any(f"/{folder}".startswith(name) for name in included), f"{folder} is in no source archive")
        for name in included:
            self.assertTrue((ROOT / name.strip("/")).exists(), name)


class Dependencies(unittest.TestCase):
    def names(self, system, group):
        listed = subprocess.run([ROOT / "scripts/install-dependencies", "--list", "--for", system, group], capture_output=True, text=True, check=False)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        return listed.stdout.split()

    def test_every_package_has_a_name_on_each_system_that_is_known(self):
        debian = self.names("debian", "packages")
        self.assertIn("libpmem2-dev", debian)
        for system, one in (("ubuntu", "libpmem2-dev"), ("fedora", "libpmem2-devel")):
            names = self.names(system, "server")
            self.assertIn(one, names)
            self.assertEqual(len(names), len(set(names)))

    def test_a_system_that_is_not_known_is_refused_by_name(self):
        listed = subprocess.run([ROOT / "scripts/install-dependencies", "--list", "--for", "plan9", "build"], capture_output=True, text=True, check=False)
        self.assertEqual(listed.returncode, 1)
        self.assertIn("plan9", listed.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
