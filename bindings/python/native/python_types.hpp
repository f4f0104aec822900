// Types of Python in the signatures of bound functions: help() and the stub, which is made from them, show what a
// function really takes and returns. What else the names mean is in stub.pattern.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>

namespace icecore::python {

/// A type's name as a template argument.
template <std::size_t Size>
struct type_name {
  char text[Size];  // NOLINT(modernize-avoid-c-arrays): what nanobind takes
  consteval type_name(const char (&name)[Size]) { std::copy_n(name, Size, text); }  // NOLINT: a literal, implicitly
};

template <type_name Name_>
struct named : nanobind::object {
  static constexpr auto Name = nanobind::detail::const_name(Name_.text);
};

/// Any object, which a signature shows as that type.
template <type_name Name>
using takes = nanobind::typed<nanobind::handle, named<Name>>;
template <type_name Name>
using returns = nanobind::typed<nanobind::object, named<Name>>;

using any_object = takes<"Any">;
using buffer_like = takes<"BufferLike">;
using block_call = takes<"Callable[[list[bytes], Any], BufferLike]">;
using bytes_like = takes<"BytesLike">;
using columns_of_bytes = takes<"list[list[bytes | None]]">;
using many_bytes_like = takes<"Iterable[BytesLike]">;
using owner_function = takes<"Callable[[bytes, int], int]">;
using progress_like = takes<"Progress">;
using query_report = takes<"Callable[[tuple[Any, ...]], object]">;
using sink_function = takes<"Callable[[Any], object]">;
using text_like = takes<"str">;

using any_tuple = returns<"tuple[Any, ...]">;
using any_list = returns<"list[Any]">;
using arrow_capsule = returns<"Any">;
using arrow_capsules = returns<"tuple[Any, Any]">;
using bounds_tuple = returns<"tuple[bytes | None, bytes | None]">;
using byte_array = returns<"Bytes">;
using bytes_or_none_list = returns<"list[bytes | None]">;
using bytes_list = returns<"BytesList">;
using bytes_or_none = returns<"bytes | None">;
using change_list = returns<"list[tuple[int, bytes | None]]">;
using column_arrays = returns<"tuple[Numbers, Bytes, Numbers, Bytes]">;
using found_page = returns<"tuple[list[tuple[bytes, bytes]], bytes, int, bool]">;
using int_pair = returns<"tuple[int, int]">;
using found_number = returns<"int | float | None">;
using name_and_revision = returns<"tuple[str, int] | None">;
using named_values = returns<"dict[str, Any]">;
using number_array = returns<"Numbers">;
using tag_tuple = returns<"tuple[int, int, str, str]">;
using tag_tuple_or_none = returns<"tuple[int, int, str, str] | None">;
using tag_tuples = returns<"list[tuple[int, int, str, str]]">;
using text_list = returns<"list[str]">;
using text_object = returns<"str">;
using view_or_none = returns<"memoryview | None">;

}  // namespace icecore::python
