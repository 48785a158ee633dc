// Conversions of values between Python and C++.
#include <fmt/format.h>
#include <nanobind/ndarray.h>

#include <utility>

#include "src/module.h"

namespace folio::python {

nb::object array_of(std::vector<float> values, std::vector<size_t> shape) {
  auto* owned = new std::vector<float>(std::move(values));
  const nb::capsule owner(owned, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, float>(owned->data(), shape.size(), shape.data(), owner));
}

nb::dict dict_of(const infer::EngineStatistics& s) {
  nb::dict all;
  all["steps"] = s.steps;
  all["rows"] = s.rows;
  all["tokens"] = s.tokens;
  all["cached_tokens"] = s.cached_tokens;
  all["preemptions"] = s.preemptions;
  all["running"] = s.running;
  all["waiting"] = s.waiting;
  all["blocks_in_use"] = s.blocks_in_use;
  all["blocks"] = s.n_blocks;
  all["step_seconds"] = s.step_seconds;
  all["plan_seconds"] = s.plan_seconds;
  return all;
}

nb::str text_of(std::string_view text) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

std::string utf8_of(nb::handle text, std::string_view name) {
  if (!PyUnicode_Check(text.ptr())) {
    throw nb::type_error(fmt::format("{} must be a string, not {}", name, Py_TYPE(text.ptr())->tp_name).c_str());
  }
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data != nullptr) return {data, static_cast<size_t>(size)};
  const nb::python_error error;  // the current one: UnicodeEncodeError
  const auto at = nb::cast<Py_ssize_t>(error.value().attr("start"));
  const auto message =
      fmt::format("{} has a lone surrogate (U+{:X}) at character {}, which UTF-8 cannot encode; replace or remove it",
                  name, PyUnicode_ReadChar(text.ptr(), at), at);
  throw nb::value_error(message.c_str());
}

}  // namespace folio::python
