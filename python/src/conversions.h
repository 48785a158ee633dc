// Values between Python and C++. Everything that comes in is checked here: types, UTF-8, nesting and size.
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

/// float32, in memory of its own.
[[nodiscard]] nb::object array_of(std::vector<float> values, std::vector<size_t> shape);

/// None, booleans, numbers, strings, mappings and sequences, and NumPy's arrays and numbers. `name` is what errors call
/// the object; without it they begin with the key of the outermost mapping. Throws TypeError for other objects, and
/// ValueError for a string with a lone surrogate, for nesting deeper than 64, and for more than 16 million values.
[[nodiscard]] Json json_of(nb::handle object, std::string_view name = {});
[[nodiscard]] nb::object object_of(const Json& json);

[[nodiscard]] nb::dict dict_of(const infer::EngineStatistics& statistics);

/// Invalid UTF-8 becomes U+FFFD.
[[nodiscard]] nb::str text_of(std::string_view text);

/// The UTF-8 of a str. Throws TypeError for other objects, and ValueError for a lone surrogate; both name `name`.
[[nodiscard]] std::string utf8_of(nb::handle text, std::string_view name);

}  // namespace folio::python
