// Converts values between Python and C++. Validates all input: types, UTF-8, nesting and size.
#pragma once

#include <nanobind/nanobind.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "infer/engine/engine.h"

namespace folio::python {

namespace nb = nanobind;
using Json = nlohmann::json;

/// Returns a NumPy array of float32 with the given shape. The array takes over the memory of `values`.
[[nodiscard]] nb::object array_of(std::vector<float> values, std::vector<size_t> shape);

/// Converts None, booleans, numbers, strings, mappings, sequences, and NumPy arrays and scalars to JSON; object_of() is
/// the inverse. Raises TypeError for other objects, and ValueError for a string with a lone surrogate, for nesting
/// deeper than 64 levels and for more than 16 million values. Error messages begin with `name` or, if it is empty, with
/// the key of the outermost mapping.
[[nodiscard]] Json json_of(nb::handle object, std::string_view name = {});
[[nodiscard]] nb::object object_of(const Json& json);

[[nodiscard]] nb::dict dict_of(const infer::EngineStatistics& statistics);

/// Converts UTF-8 to a str. Invalid UTF-8 becomes U+FFFD.
[[nodiscard]] nb::str text_of(std::string_view text);

/// Returns a str as UTF-8. Raises TypeError for other objects, and ValueError for a lone surrogate. Error messages
/// begin with `name`.
[[nodiscard]] std::string utf8_of(nb::handle text, std::string_view name);

}  // namespace folio::python
