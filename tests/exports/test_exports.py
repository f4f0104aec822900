"""exports.py tells of each symbol too many and of each that is missing, and of no other."""

import unittest

from exports import Interface, faults

HEADER = """namespace [[gnu::visibility("default")]] icecore {

namespace detail {
class core;
struct part {
};
}  // namespace detail

namespace mpi {
class part;
}

inline constexpr int most = 7;

/// Tells what it is.
[[nodiscard]] const char* name_of(int number) noexcept;
[[nodiscard]] inline int half_of(int number) noexcept { return number / 2; }

class failure : public std::system_error {
 public:
  explicit failure(int number);
};

class store {
 public:
  void insert(int number);

 private:
  struct walk;
};

}  // namespace icecore
"""
C_HEADER = """/* int icecore_nothing(void); is no function */
typedef int (*icecore_function)(int number);
const char* icecore_name(void);
int icecore_open(const char* path,
                 int how);
"""
PUBLIC = {"icecore::name_of(int)", "icecore::store::insert(int)", "icecore_name", "icecore_open", "icecore::failure::failure(int)",
          "typeinfo for icecore::failure"}  # fmt: skip


class Exports(unittest.TestCase):
    def found(self, exported, weak=(), archived=(), below=()):
        interface = Interface([])
        interface.add(".hpp", HEADER)
        interface.add(".h", C_HEADER)
        foundation = Interface([])
        for text in below:
            foundation.add(".hpp", text)
        return [line.split(": ", 1)[1] for line in faults(interface, set(exported), set(weak), set(archived), foundation)]

    def test_public_interface(self):
        self.assertEqual(self.found(PUBLIC, weak={"icecore::most", "vtable for icecore::failure"}, archived=PUBLIC), [])

    def test_what_is_no_interface(self):
        for inside in ("icecore::pool::sync()", "icecore::detail::part::size()", "icecore::store::walk::step()", "icecore_inside",
                       "typeinfo for icecore::pool", "icecore::detail::name_of(int)", "std::to_string(int)"):  # fmt: skip
            self.assertEqual(self.found(PUBLIC | {inside}), [inside])
            self.assertEqual(self.found(PUBLIC, archived={inside}), [])

    def test_what_is_missing(self):
        for name in PUBLIC:
            self.assertEqual(self.found(PUBLIC - {name}, archived=PUBLIC), [name])

    def test_header_that_does_not_say_that_it_is_seen(self):
        forgotten = HEADER.replace('[[gnu::visibility("default")]] ', "")
        self.assertNotEqual(forgotten, HEADER)
        interface = Interface([])
        interface.add(".hpp", forgotten)
        interface.add(".h", C_HEADER)
        self.assertTrue(all(map(interface.has, PUBLIC)))

    def test_namespace_within_that_is_public_too(self):
        text = """namespace [[gnu::visibility("default")]] icecore {
namespace remote {
namespace detail {
class session;
}  // namespace detail
template <class Row>
class row_range {
 public:
  void step();
};
}  // namespace remote
}  // namespace icecore
"""
        for inner, public in (("remote", True), ("", False)):
            interface = Interface([], inner=inner)
            interface.add(".hpp", text)
            self.assertEqual(interface.has("icecore::remote::row_range<std::pair<int, int> >::step()"), public)
            self.assertFalse(interface.has("icecore::remote::detail::session::step()"))
            self.assertFalse(interface.has("icecore::row_range<int>::step()"))

    def test_inline_parts_of_the_library_below(self):
        below = ["class error : public std::system_error {\n};\n"]
        self.assertEqual(self.found(PUBLIC, weak={"vtable for icecore::error"}, below=below), [])
        self.assertEqual(self.found(PUBLIC | {"icecore::error::copy()"}, below=below), ["icecore::error::copy()"])


if __name__ == "__main__":
    unittest.main()
