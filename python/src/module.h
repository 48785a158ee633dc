// What the parts of the module share: values on their way between Python and C++.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "src/shared_model.h"

namespace folio::python {

namespace nb = nanobind;
using Json = nlohmann::json;

/// Other Python threads run while one of these exists. When the interpreter ends, it waits for them: a thread that came
/// back later would be ended by Python in the middle of C++. Throws core::Error after that.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

/// float32, in memory of its own.
[[nodiscard]] nb::object array_of(std::vector<float> values, std::vector<size_t> shape);

/// None, numbers, texts, lists and dicts, NumPy's too. Throws TypeError for anything else.
[[nodiscard]] Json json_of(nb::handle object);
[[nodiscard]] nb::object object_of(const Json& json);

[[nodiscard]] nb::dict dict_of(const infer::EngineStatistics& statistics);

/// What is no UTF-8 becomes U+FFFD.
[[nodiscard]] nb::str text_of(std::string_view text);

void bind_fast_llm(nb::module_& m);
void bind_faster_transformer(nb::module_& m);
void bind_service(nb::module_& m);

}  // namespace folio::python
