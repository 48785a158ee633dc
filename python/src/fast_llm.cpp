// C++ functions of the Python module folio.fast_llm, in addition to those of folio.Model: they build conversations as
// strings, tokenize them, and return the tokens that end an answer.
#include "infer/interfaces/fast_llm.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "infer/engine/conversation.h"
#include "src/module.h"

namespace folio::python {

void bind_fast_llm(nb::module_& m) {
  using Use = SharedModel::Use;
  namespace fast_llm = infer::fast_llm;
  m.def(
      "fast_llm_with_turn",
      [](const Model& model, nb::handle history, int round, nb::handle input, nb::handle output) {
        const std::string before = utf8_of(history, "history"), asked = utf8_of(input, "input");
        std::optional<std::string> answered;
        if (!output.is_none()) answered = utf8_of(output, "output");
        return text_of(with_model(model, [&](const Use& use) {
          const auto& chat = use.served().chat_template;
          return fast_llm::with_turn(use.tokenizer(), chat, before, round, asked, answered);
        }));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg("output").none());
  m.def("fast_llm_encode", [](const Model& model, nb::handle text) {
    return with_model(model, [own = utf8_of(text, "content")](const Use& use) {
      return fast_llm::encode(use.tokenizer(), use.served().chat_template, own);
    });
  });
  m.def("fast_llm_ends", [](const Model& model) {
    return with_model(model, [](const Use& use) {
      infer::GenerateOptions options;
      if (use.served().chat_template) infer::end_at_turn(use.tokenizer(), *use.served().chat_template, options);
      return std::pair(options.end_tokens, std::vector<std::string>(options.stops.begin(), options.stops.end()));
    });
  });
}

}  // namespace folio::python
