// Declarations shared by the files of folio._engine: a model owned by Python, and calls on it without the GIL.
#pragma once

#include <memory>

#include "src/conversions.h"
#include "src/process.h"
#include "src/shared_model.h"

namespace folio::python {

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

void bind_fast_llm(nb::module_& m);
void bind_faster_transformer(nb::module_& m);
void bind_service(nb::module_& m);

}  // namespace folio::python
