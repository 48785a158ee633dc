// What the parts of the module share: a model that Python owns, and calls on it.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "src/conversions.h"
#include "src/process.h"
#include "src/shared_model.h"

namespace folio::python {

template <>
inline constexpr bool kJoinsThreads<SharedModel> = true;

using Model = Owned<SharedModel>;
/// The engine's threads hold the notifier itself, not the Python object, whose last reference they would release.
using Notifier = Owned<std::shared_ptr<infer::Notifier>>;

/// work(use), without the GIL: it must not touch Python. What Python passes is converted before, and results after it:
/// both may run Python code, which may close the model, and that waits for the end of `use`.
template <typename Work>
auto with_model(const Model& model, Work work) {
  const SharedModel::Use use(*model);  // first: it may report that the model is closed
  const WithoutGil released;
  return work(use);
}

void bind_fast_llm(nb::module_& m);
void bind_faster_transformer(nb::module_& m);
void bind_service(nb::module_& m);

}  // namespace folio::python
