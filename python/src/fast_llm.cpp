// What folio.fast_llm needs beside folio.Model: a conversation as a text that grows, and how an answer ends.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "infer/engine/conversation.h"
#include "infer/interfaces/fast_llm_chat.h"
#include "src/module.h"

namespace folio::python {

void bind_fast_llm(nb::module_& m) {
  using Model = std::shared_ptr<SharedModel>;
  namespace fast_llm = infer::fast_llm;
  m.def("fast_llm_make_input", [](const Model& model, const std::string& history, int round, const std::string& input) {
    const SharedModel::Use use(*model);
    return fast_llm::make_input(use.tokenizer(), use.served().chat_template, history, round, input);
  });
  m.def("fast_llm_make_history", [](const Model& model, const std::string& history, int round, const std::string& input,
                                    const std::string& output) {
    const SharedModel::Use use(*model);
    return fast_llm::make_history(use.tokenizer(), use.served().chat_template, history, round, input, output);
  });
  m.def("fast_llm_encode", [](const Model& model, const std::string& text) {
    const SharedModel::Use use(*model);
    return fast_llm::encode(use.tokenizer(), use.served().chat_template, text);
  });
  m.def("fast_llm_ends", [](const Model& model) {
    const SharedModel::Use use(*model);
    infer::GenerateOptions options;
    if (use.served().chat_template) infer::end_at_turn(use.tokenizer(), *use.served().chat_template, options);
    return std::pair(options.end_tokens, std::vector<std::string>(options.stops.begin(), options.stops.end()));
  });
}

}  // namespace folio::python
