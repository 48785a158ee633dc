// Declarations shared by the files of folio._engine: a model owned by Python, calls on it without the GIL, and
// conversions of values between Python and C++. Values of JSON types are passed as JSON text; checks.py serializes the
// arguments.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/process.h"
#include "src/shared_model.h"

namespace folio::python {

using Json = nlohmann::json;

inline constexpr std::chrono::milliseconds kBetweenSignals{20};  ///< interval of checks for Ctrl-C

template <>
inline constexpr bool kJoinsThreads<SharedModel> = true;

using Model = Owned<SharedModel>;
/// A notifier owned by Python. Engine threads hold only its infer::Notifier, so they never release a Python object.
using Notifier = Owned<std::shared_ptr<infer::Notifier>>;

/// Calls work(use) without the GIL, so `work` must not use Python objects. Convert arguments before the call and
/// results after it: a conversion may run Python code that closes the model, and close() would wait for `use` forever.
template <typename Work>
auto with_model(const Model& model, Work work) {
  const SharedModel::Use use(*model);  // first, because it throws if the model is closed
  const WithoutGil released;
  return work(use);
}

/// Returns a NumPy array of float32 with the given shape. The array takes over the memory of `values`.
[[nodiscard]] nb::object array_of(std::vector<float> values, std::vector<size_t> shape);

[[nodiscard]] nb::dict dict_of(const infer::EngineStatistics& statistics);

/// Converts UTF-8 to a str. Invalid UTF-8 becomes U+FFFD.
[[nodiscard]] nb::str text_of(std::string_view text);

/// Returns a str as UTF-8. Raises TypeError for other objects, and ValueError for a lone surrogate. Error messages
/// begin with `name`.
[[nodiscard]] std::string utf8_of(nb::handle text, std::string_view name);

void bind_fast_llm(nb::module_& m);
void bind_faster_transformer(nb::module_& m);
void bind_service(nb::module_& m);

}  // namespace folio::python
