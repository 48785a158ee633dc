// folio._engine: the engine's functions for Python. Arguments are checked in C++ like those of requests to the server;
// python/folio/ adds the typed interface. Other Python threads run while C++ computes or waits.
#include "src/module.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/manifest.h"
#include "core/random.h"
#include "core/version.h"
#include "core/weights.h"
#include "data/chat/chat_template.h"
#include "infer/engine/perplexity.h"
#include "infer/explain/analysis.h"
#include "infer/reference/kernels.h"
#include "infer/server/explain_request.h"
#include "infer/server/replies.h"

namespace folio::python {
namespace {

using Ids = std::vector<int32_t>;

// A TextStream for Python. Keeps the Python object of its model alive.
class Stream {
 public:
  Stream(const Model& model, std::shared_ptr<infer::TextStream> stream)
      : model_(model), stream_(std::make_unique<std::shared_ptr<infer::TextStream>>(std::move(stream))) {}

  // Waits for new pieces and returns them. Returns an empty list after `timeout` seconds or at the end of the stream.
  // Ctrl-C aborts the request.
  std::vector<infer::TextPiece> wait(double timeout = std::numeric_limits<double>::infinity()) {
    using Seconds = std::chrono::duration<double>;
    const auto begin = std::chrono::steady_clock::now();
    while (true) {
      const double left = timeout - Seconds(std::chrono::steady_clock::now() - begin).count();
      const auto at_most = left < Seconds(kBetweenSignals).count()
                               ? std::chrono::ceil<std::chrono::milliseconds>(Seconds(std::max(left, 0.0)))
                               : kBetweenSignals;
      auto news = with_model(model_, [&](const SharedModel::Use&) { return next(at_most); });
      if (!news.empty() || ended() || left <= 0.0) return news;
      if (PyErr_CheckSignals() != 0) {
        cancel();
        throw nb::python_error();
      }
    }
  }
  std::vector<infer::TextPiece> poll() {
    const SharedModel::Use use(*model_);
    return next({});
  }
  [[nodiscard]] bool ended() const { return (*stream_)->ended(); }
  void cancel() {
    if (const auto* stream = stream_.here()) (*stream)->cancel();
  }
  std::vector<infer::GenerateResult> results() {
    while (!ended()) wait();
    const SharedModel::Use use(*model_);  // throws if the model was closed, since closing may truncate outputs
    return (*stream_)->take_results();
  }

 private:
  std::vector<infer::TextPiece> next(std::chrono::milliseconds at_most) {
    try {
      return (*stream_)->next(at_most);
    } catch (const core::Error&) {
      const SharedModel::Use still(*model_);  // if the model was closed, throws an error that says so
      throw;
    }
  }

  const Model& model_;
  Owned<std::shared_ptr<infer::TextStream>> stream_;
};

nb::list pieces_of(std::vector<infer::TextPiece> pieces) {
  nb::list list;
  for (const infer::TextPiece& piece : pieces) {
    list.append(nb::make_tuple(piece.choice, text_of(piece.text), piece.tokens, piece.ended));
  }
  return list;
}

nb::list results_of(const std::vector<infer::GenerateResult>& results) {
  nb::list list;
  for (const infer::GenerateResult& r : results) {
    list.append(nb::make_tuple(text_of(r.text), r.tokens,
                               nb::str(std::string(finish_reason_name(r.finish_reason)).c_str()), r.score));
  }
  return list;
}

std::unique_ptr<Model> open(nb::handle given_path, const std::string& given) {
  const std::string path = utf8_of(given_path, "path");
  const Json o = Json::parse(given);
  OpenOptions options{.name = o.value("name", ""),
                      .chat_template = o.value("chat_template", ""),
                      .speculate = o.value("speculate", size_t{0})};
  infer::LoadOptions& load = options.load;
  load.tokenizer = o.value("tokenizer", "");
  load.draft_model = o.value("draft_model", "");
  if (options.speculate > 0) load.draft = static_cast<infer::DraftSource>(o.value("draft", 0));
  load.generation_config = o.value("generation_config", "auto");
  if (const std::string folder = o.value("adapter", ""); !folder.empty()) {
    load.adapters = {{.path = folder, .scale = o.value("adapter_scale", 1.0F)}};
  }
  load.context = o.value("context", int64_t{0});
  load.cache_positions = o.value("cache_tokens", infer::kForMany);
  load.limits = {.max_rows = o.value("max_batch_tokens", size_t{256}),
                 .max_sequences = o.value("max_sequences", size_t{16})};
  size_t& rows = load.machines.max_logit_rows;
  rows = std::max(rows, (1 + options.speculate) * load.limits.max_sequences);
  load.machines.n_threads = o.value("threads", size_t{0});
  load.machines.fast = o.value("fast", false);
  if (o.contains("gpu")) load.machines.gpu = o["gpu"].get<int>();
  if (o.contains("cache_type")) load.cache_type = static_cast<infer::CacheType>(o["cache_type"].get<int>());
  auto model = [&] {
    const WithoutGil released;
    return std::make_unique<SharedModel>(path, options);
  }();
  return std::make_unique<Model>(std::move(model));
}

// Runs a request that only prefills its prompt. Returns after the request's callbacks have received all results.
void run_prompt(const Model& model, infer::Request request) {
  auto stream = with_model(model, [&](const SharedModel::Use& use) {
    request.options.adapter = use.loaded().adapter();
    request.options.context = use.served().context;
    std::vector<infer::Request> one;
    one.push_back(std::move(request));
    return use.submit(std::move(one), false);
  });
  static_cast<void>(Stream(model, std::move(stream)).results());
}

nb::object logits(const Model& model, Ids ids) {
  const auto n_vocab = static_cast<size_t>(SharedModel::Use(*model).tokenizer().vocab_size());
  // Shared, because the engine's thread may still write after Ctrl-C has ended the call.
  const auto values = std::make_shared<std::vector<float>>();
  infer::Request request{.prompt = std::move(ids)};
  request.on_logits = [values](std::span<const float> rows) {
    values->insert(values->end(), rows.begin(), rows.end());
  };
  run_prompt(model, std::move(request));
  const size_t n_rows = values->size() / n_vocab;
  return array_of(std::move(*values), {n_rows, n_vocab});
}

// Intermediate values of the forward pass by name, one row per token.
using Places = std::vector<std::pair<std::string, std::vector<float>>>;

std::shared_ptr<Places> observe(const Model& model, const Ids& ids) {
  const auto places = std::make_shared<Places>();
  infer::Request request{.prompt = ids};
  request.on_logits = [](std::span<const float>) {};  // makes the engine compute the last layer and logits of all rows
  request.observer = [places](const std::string& name, std::span<const float> values, size_t) {
    auto found = std::ranges::find(*places, name, &Places::value_type::first);
    if (found == places->end()) found = places->insert(places->end(), {name, {}});
    found->second.insert(found->second.end(), values.begin(), values.end());
    return false;
  };
  run_prompt(model, std::move(request));
  return places;
}

nb::dict trace(const Model& model, const Ids& ids) {
  nb::dict arrays;
  const auto places = observe(model, ids);
  for (auto& [name, values] : *places) {
    const size_t width = values.size() / ids.size();
    arrays[name.c_str()] = array_of(std::move(values), {ids.size(), width});
  }
  return arrays;
}

nb::object attention(const Model& model, const Ids& ids, int64_t layer) {
  infer::explain::Trace trace{.tokens = ids};
  const auto places = observe(model, ids);
  for (auto& [name, values] : *places) trace.values.emplace(name, std::move(values));
  auto weights = with_model(model, [&](const SharedModel::Use& use) {
    const infer::explain::Tensors tensors(use.loaded().file());
    if (tensors.config().latent()) infer::explain::expand_latents(tensors, layer, trace, false);
    return infer::explain::attention_weights(tensors, layer, trace);
  });
  const size_t n_heads = weights.size() / (ids.size() * ids.size());
  return array_of(std::move(weights), {n_heads, ids.size(), ids.size()});
}

// Returns a dict of activations as NumPy arrays, and the Explanation without them.
nb::tuple explain(const Model& model, const std::string& body) {
  infer::explain::Explanation made = with_model(model, [&body](const SharedModel::Use& use) {
    infer::server::ServedModel served = use.served();
    served.adapter = use.loaded().adapter();
    return infer::server::explanation_of(Json::parse(body), served, use.engine(), core::WorkBudget(), true);
  });
  nb::dict arrays;
  for (auto& [name, one] : made.activations) {
    arrays[name.c_str()] = array_of(std::move(one.values), {one.shape.begin(), one.shape.end()});
  }
  made.activations.clear();
  return nb::make_tuple(arrays, std::move(made));
}

std::vector<double> score(const Model& model, Ids ids) {
  const auto all = std::make_shared<std::vector<double>>();
  infer::Request request{.prompt = std::move(ids)};
  request.on_log_probs = [all](std::span<const double> more) { all->insert(all->end(), more.begin(), more.end()); };
  run_prompt(model, std::move(request));
  return *all;
}

std::unique_ptr<Stream> submit(const Model& model, bool chat, const std::string& body, bool pieces,
                               const Notifier* notifier, const std::vector<int32_t>& end_tokens) {
  std::function<void()> on_delivery;
  if (notifier != nullptr) on_delivery = [told = **notifier] { told->notify(); };
  auto stream = with_model(model, [&](const SharedModel::Use& use) {
    auto request = parse_request(use, chat, body, core::system_random() >> 11U);
    auto requests = engine_requests(use, std::move(request));
    for (infer::Request& r : requests) {
      r.options.end_tokens.insert(r.options.end_tokens.end(), end_tokens.begin(), end_tokens.end());
    }
    return use.submit(std::move(requests), pieces, std::move(on_delivery));
  });
  return std::make_unique<Stream>(model, std::move(stream));
}

nb::dict config(const Model& model) {
  const core::ModelConfig c = with_model(model, [](const SharedModel::Use& use) { return use.loaded().config(); });
  nb::dict fields;
  core::ModelConfig::visit_fields(c, [&](const char* name, const auto& value, auto&&...) {
    if constexpr (std::is_enum_v<std::decay_t<decltype(value)>>) {
      fields[name] = fmt::format("{}", value);
    } else {
      fields[name] = value;
    }
  });
  fields["parameters"] = core::parameter_count(c);
  return fields;
}

// Returns the engine's counters. Does not release the GIL, because the call is short.
nb::dict statistics(const Model& model) {
  const infer::EngineStatistics now = [&] { return SharedModel::Use(*model).engine().statistics(); }();
  return dict_of(now);
}

std::string about(const Model& model) {
  return with_model(model, [](const SharedModel::Use& use) {
    const data::Tokenizer& tokenizer = use.tokenizer();
    return infer::server::dump({{"name", use.served().name},
                                {"path", use.loaded().file().path},
                                {"context", use.served().context},
                                {"chat", use.served().chat_template.has_value()},
                                {"threads", use.loaded().machines().n_threads},
                                {"vocab_size", tokenizer.vocab_size()},
                                {"tokenizer", tokenizer.kind()},
                                {"bos", tokenizer.begin_of_text()},
                                {"eos", tokenizer.end_of_text()}});
  });
}

nb::dict tensors(const Model& model) {
  const auto manifest =
      with_model(model, [](const SharedModel::Use& use) { return core::tensor_manifest(use.loaded().config()); });
  nb::dict shapes;
  for (const core::TensorSpec& spec : manifest) shapes[spec.gguf_name.c_str()] = nb::tuple(nb::cast(spec.shape));
  return shapes;
}

nb::object tensor(const Model& model, nb::handle name) {
  std::vector<size_t> shape;
  auto values = with_model(model, [&shape, wanted = utf8_of(name, "name")](const SharedModel::Use& use) {
    const auto manifest = core::tensor_manifest(use.loaded().config());
    const auto found = std::ranges::find(manifest, wanted, &core::TensorSpec::gguf_name);
    core::require(found != manifest.end(), "{}: the model has no tensor {}; see Model.tensors",
                  use.loaded().file().path, core::printable(wanted));
    shape.assign(found->shape.begin(), found->shape.end());
    return core::to_floats(use.loaded().file().tensors[static_cast<size_t>(found - manifest.begin())]);
  });
  return array_of(std::move(values), std::move(shape));
}

Ids encode(const Model& model, nb::handle text, bool prefix, bool parse_special) {
  const data::PromptOptions options{.parse_special = parse_special, .add_special = prefix};
  return with_model(model, [options, own = utf8_of(text, "text")](const SharedModel::Use& use) {
    return use.tokenizer().encode_prompt(own, options);
  });
}

nb::str decode(const Model& model, const std::string& ids) {
  const std::string text = with_model(model, [&ids](const SharedModel::Use& use) {
    return use.tokenizer().decode(infer::server::parse_detokenize({{"tokens", Json::parse(ids)}}, use.served()));
  });
  return text_of(text);
}

nb::bytes token_bytes(const Model& model, int64_t id) {
  const std::string bytes = [&] {
    const SharedModel::Use use(*model);
    const int32_t n = use.tokenizer().vocab_size();
    core::require(id >= 0 && id < n, "token {} is outside the vocabulary, which has ids 0 to {}", id, n - 1);
    return use.tokenizer().token_bytes(static_cast<int32_t>(id));
  }();
  return nb::bytes(bytes.data(), bytes.size());
}

Ids encode_chat(const Model& model, const std::string& messages) {
  return with_model(model, [&messages](const SharedModel::Use& use) {
    return infer::server::parse_tokenize({{"messages", Json::parse(messages)}}, use.served());
  });
}

void close(const Model& model) {
  SharedModel* here = model.here();
  if (here == nullptr) return;
  const WithoutGil released;
  here->close();
}

void bind_model(nb::module_& m) {
  nb::class_<Notifier>(m, "Notifier")
      .def("__init__",
           [](Notifier* self) {
             auto notifier = std::make_shared<infer::Notifier>();
             new (self) Notifier(std::make_unique<std::shared_ptr<infer::Notifier>>(std::move(notifier)));
           })
      .def("fileno", [](const Notifier& n) { return (**n).fd(); })
      .def("clear", [](const Notifier& n) { (**n).clear(); });
  nb::class_<Stream>(m, "Stream")
      .def(
          "wait", [](Stream& s, double timeout) { return pieces_of(s.wait(timeout)); },
          nb::arg("timeout") = std::numeric_limits<double>::infinity())
      .def("poll", [](Stream& s) { return pieces_of(s.poll()); })
      .def("results", [](Stream& s) { return results_of(s.results()); })
      .def("cancel", &Stream::cancel)
      .def_prop_ro("ended", &Stream::ended);
  nb::class_<Model>(m, "Model")
      .def_prop_ro("closed", [](const Model& model) { return model.here() == nullptr || model.here()->closed(); })
      .def("check_process", [](const Model& model) { static_cast<void>(model.get()); })
      .def("close", &close);
  nb::class_<infer::explain::Explanation>(m, "Explanation")
      .def("json", [](const infer::explain::Explanation& e) { return infer::server::dump(e.json); })
      .def("html", [](const infer::explain::Explanation& e) { return text_of(infer::explain::to_html(e.json)); });
  m.def("open", &open);
  m.def("wait_for_threads", &wait_for_threads);
  m.def("submit", &submit, nb::keep_alive<0, 1>(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg("notifier").none() = nb::none(), nb::arg("end_tokens") = std::vector<int32_t>());
  m.def("logits", &logits);
  m.def("trace", &trace);
  m.def("attention", &attention);
  m.def("explain", &explain);
  m.def("score", &score);
  m.def("config", &config);
  m.def("tensors", &tensors);
  m.def("tensor", &tensor);
  m.def("statistics", &statistics);
  m.def("about", &about);
  m.def("encode", &encode);
  m.def("decode", &decode);
  m.def("token_bytes", &token_bytes);
  m.def("encode_chat", &encode_chat);
}

// Raises an exception with the arguments (message, name of the invalid field, error code). folio/model.py converts it
// to TypeError, ValueError or folio.Error.
void throw_api_error(const std::exception_ptr& error, void* type) {
  try {
    std::rethrow_exception(error);
  } catch (const infer::server::ApiError& e) {
    const auto or_none = [](const std::string& s) { return s.empty() ? nb::none() : nb::object(text_of(s)); };
    const nb::object args = nb::make_tuple(text_of(e.what()), or_none(e.param()), or_none(e.code()));
    PyErr_SetObject(static_cast<PyObject*>(type), args.ptr());
  }
}

void throw_error(const std::exception_ptr& error, void* type) {
  try {
    std::rethrow_exception(error);
  } catch (const core::Error& e) {
    PyErr_SetObject(static_cast<PyObject*>(type), text_of(e.what()).ptr());
  } catch (const std::filesystem::filesystem_error& e) {
    PyErr_SetObject(static_cast<PyObject*>(type), text_of(core::describe(e)).ptr());
  }
}

}  // namespace
}  // namespace folio::python

NB_MODULE(_engine, m) {
  using namespace folio::python;
  nb::set_leak_warnings(false);  // models may live until the interpreter ends
  watch_forks();
  const nb::object error = nb::steal(PyErr_NewException("folio.Error", PyExc_RuntimeError, nullptr));
  m.attr("Error") = error;
  const nb::object refusal = nb::steal(PyErr_NewException("folio._engine.Refusal", error.ptr(), nullptr));
  m.attr("Refusal") = refusal;
  nb::register_exception_translator(throw_error, error.ptr());
  nb::register_exception_translator(throw_api_error, refusal.ptr());
  m.attr("version") = std::string(folio::core::version());
  bind_model(m);
  bind_service(m);
  bind_fast_llm(m);
  bind_faster_transformer(m);
}
