// folio._engine: what Python calls of the engine. Arguments are checked in C++, by the server's lists; the typed face
// is python/folio/. While C++ works or waits, other Python threads run.
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
#include <map>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/manifest.h"
#include "core/random.h"
#include "core/version.h"
#include "core/weights.h"
#include "data/chat/chat_template.h"
#include "infer/engine/perplexity.h"
#include "infer/reference/kernels.h"
#include "infer/server/replies.h"

namespace folio::python {

namespace {

// Changed with the GIL alone.
size_t n_away = 0;
bool is_ending = false;

// At the interpreter's end, when the models are closed: waits until every thread is back.
void wait_for_threads() {
  is_ending = true;
  while (n_away > 0) {
    const nb::gil_scoped_release release;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

WithoutGil::WithoutGil() {
  core::require(!is_ending, "the interpreter ends");
  ++n_away;
  thread_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  PyEval_RestoreThread(thread_);
  --n_away;
}

nb::object array_of(std::vector<float> values, std::vector<size_t> shape) {
  auto* owned = new std::vector<float>(std::move(values));
  const nb::capsule owner(owned, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, float>(owned->data(), shape.size(), shape.data(), owner));
}

Json json_of(nb::handle object) {
  if (object.is_none()) return nullptr;
  if (nb::isinstance<nb::bool_>(object)) return nb::cast<bool>(object);
  if (nb::isinstance<nb::str>(object)) return nb::cast<std::string>(object);
  if (nb::isinstance<nb::dict>(object)) {
    Json json = Json::object();
    for (const auto& [key, value] : nb::cast<nb::dict>(object))
      json[nb::cast<std::string>(nb::str(key))] = json_of(value);
    return json;
  }
  if (PyFloat_Check(object.ptr())) return PyFloat_AS_DOUBLE(object.ptr());
  if (nb::hasattr(object, "tolist")) return json_of(object.attr("tolist")());  // NumPy's arrays and numbers
  if (PyIndex_Check(object.ptr())) {
    const nb::object whole = nb::steal(PyNumber_Index(object.ptr()));
    if (!whole.is_valid()) throw nb::python_error();
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
    if (overflow != 0) return overflow > 0 ? Json(UINT64_MAX) : Json(PyLong_AsDouble(whole.ptr()));
    return value;
  }
  if (PySequence_Check(object.ptr()) != 0) {
    Json json = Json::array();
    for (const nb::handle one : object) json.push_back(json_of(one));
    return json;
  }
  throw nb::type_error("an option has to be a number, a text, true or false, None, or a list or dict of these");
}

nb::object object_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return nb::bool_(json.get<bool>());
    case Json::value_t::number_integer:
      return nb::int_(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return nb::int_(json.get<uint64_t>());
    case Json::value_t::number_float:
      return nb::float_(json.get<double>());
    case Json::value_t::string:
      return nb::str(json.get_ref<const std::string&>().c_str(), json.get_ref<const std::string&>().size());
    case Json::value_t::array: {
      nb::list list;
      for (const Json& one : json) list.append(object_of(one));
      return list;
    }
    case Json::value_t::object: {
      nb::dict dict;
      for (const auto& [key, value] : json.items()) dict[key.c_str()] = object_of(value);
      return dict;
    }
    default:
      return nb::none();
  }
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

namespace {

constexpr std::chrono::milliseconds kBetweenSignals{20};

using Ids = std::vector<int32_t>;

// What Python sees of a stream. It keeps the model.
class Stream {
 public:
  Stream(std::shared_ptr<SharedModel> model, std::unique_ptr<infer::TextStream> stream)
      : model_(std::move(model)), stream_(std::move(stream)) {}

  // Waits for what is new, but no longer than `timeout` seconds; Ctrl-C ends the texts.
  std::vector<infer::TextPiece> wait(double timeout = std::numeric_limits<double>::infinity()) {
    using Seconds = std::chrono::duration<double>;
    const auto begin = std::chrono::steady_clock::now();
    while (true) {
      const double left = timeout - Seconds(std::chrono::steady_clock::now() - begin).count();
      std::vector<infer::TextPiece> news;
      {
        const SharedModel::Use use(*model_);  // before that: it may say that the model is closed
        const WithoutGil away;
        news = next(left < Seconds(kBetweenSignals).count()
                        ? std::chrono::ceil<std::chrono::milliseconds>(Seconds(std::max(left, 0.0)))
                        : kBetweenSignals);
      }
      if (!news.empty() || stream_->ended() || left <= 0.0) return news;
      if (PyErr_CheckSignals() != 0) {
        stream_->cancel();
        throw nb::python_error();
      }
    }
  }
  std::vector<infer::TextPiece> poll() { return next({}); }
  [[nodiscard]] bool ended() const { return stream_->ended(); }
  void cancel() { stream_->cancel(); }
  std::vector<infer::GenerateResult> results() {
    while (!ended()) wait();
    const SharedModel::Use use(*model_);  // a model that was closed meanwhile cut the texts off
    return stream_->take_results();
  }

 private:
  std::vector<infer::TextPiece> next(std::chrono::milliseconds at_most) {
    const SharedModel::Use use(*model_);
    try {
      return stream_->next(at_most);
    } catch (const core::Error&) {
      const SharedModel::Use still(*model_);  // closed meanwhile: that is the reason
      throw;
    }
  }

  std::shared_ptr<SharedModel> model_;
  std::unique_ptr<infer::TextStream> stream_;
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

std::shared_ptr<SharedModel> open(const std::string& path, nb::dict given) {
  const Json o = json_of(given);
  OpenOptions options{.name = o.value("name", ""),
                      .chat_template = o.value("chat_template", ""),
                      .speculate = o.value("speculate", size_t{0})};
  infer::LoadOptions& load = options.load;
  load.tokenizer = o.value("tokenizer", "");
  load.draft_model = o.value("draft_model", "");
  if (const std::string folder = o.value("adapter", ""); !folder.empty()) {
    load.adapters = {{.path = folder, .scale = o.value("adapter_scale", 1.0F)}};
  }
  load.context = o.value("context", int64_t{0});
  load.cache_positions = o.value("cache_tokens", infer::kForMany);
  load.limits = {.max_rows = o.value("max_batch_tokens", size_t{256}),
                 .max_sequences = o.value("max_sequences", size_t{16})};
  load.machines.n_threads = o.value("threads", size_t{0});
  load.machines.fast = o.value("fast", false);
  if (o.contains("gpu")) load.machines.gpu = o["gpu"].get<int>();
  if (o.contains("cache_type")) load.cache_type = static_cast<infer::CacheType>(o["cache_type"].get<int>());
  const WithoutGil away;
  return std::make_shared<SharedModel>(path, options);
}

// A request that has no text, but sees its prompt's rows.
void run_prompt(const std::shared_ptr<SharedModel>& model, infer::Request request) {
  std::unique_ptr<infer::TextStream> stream;
  {
    const SharedModel::Use use(*model);
    request.options.adapter = use.loaded().adapter();
    request.options.context = use.served().context;
    std::vector<infer::Request> one;
    one.push_back(std::move(request));
    stream = use.submit(std::move(one), false);
  }
  static_cast<void>(Stream(model, std::move(stream)).results());
}

size_t vocab_size(const std::shared_ptr<SharedModel>& model) {
  return static_cast<size_t>(SharedModel::Use(*model).tokenizer().vocab_size());
}

nb::object logits(const std::shared_ptr<SharedModel>& model, Ids ids) {
  const size_t n_vocab = vocab_size(model);
  // The engine's thread may still write when a Ctrl-C has ended the call.
  const auto values = std::make_shared<std::vector<float>>();
  infer::Request request{.prompt = std::move(ids)};
  request.on_logits = [values](std::span<const float> rows) {
    values->insert(values->end(), rows.begin(), rows.end());
  };
  run_prompt(model, std::move(request));
  const size_t n_rows = values->size() / n_vocab;
  return array_of(std::move(*values), {n_rows, n_vocab});
}

nb::dict trace(const std::shared_ptr<SharedModel>& model, Ids ids) {
  struct Place {
    std::vector<float> values{};
    size_t n_rows = 0;
  };
  const auto places = std::make_shared<std::vector<std::pair<std::string, Place>>>();
  infer::Request request{.prompt = std::move(ids)};
  request.on_logits = [](std::span<const float>) {};  // so that the last places have all rows
  request.observer = [places](const std::string& name, std::span<const float> values, size_t n_rows) {
    auto found = std::ranges::find(*places, name, &std::pair<std::string, Place>::first);
    if (found == places->end()) found = places->insert(places->end(), {name, {}});
    found->second.values.insert(found->second.values.end(), values.begin(), values.end());
    found->second.n_rows += n_rows;
  };
  run_prompt(model, std::move(request));
  nb::dict arrays;
  for (auto& [name, place] : *places) {
    const size_t width = place.n_rows == 0 ? 0 : place.values.size() / place.n_rows;
    arrays[name.c_str()] = array_of(std::move(place.values), {place.n_rows, width});
  }
  return arrays;
}

std::vector<double> score(const std::shared_ptr<SharedModel>& model, Ids ids) {
  const auto all = std::make_shared<std::vector<double>>();
  infer::Request request{.prompt = std::move(ids)};
  request.on_log_probs = [all](std::span<const double> more) { all->insert(all->end(), more.begin(), more.end()); };
  run_prompt(model, std::move(request));
  return *all;
}

std::unique_ptr<Stream> submit(const std::shared_ptr<SharedModel>& model, bool chat, nb::dict body, bool pieces,
                               const std::shared_ptr<infer::Notifier>& notifier, const std::vector<int32_t>& end_tokens,
                               const std::string& forms) {
  Json json = json_of(body);
  const SharedModel::Use use(*model);
  const WithoutGil away;
  auto request = parse_request(use, chat, std::move(json), core::system_random() >> 11U, forms);
  auto requests = engine_requests(use, std::move(request));
  for (infer::Request& r : requests) {
    r.options.end_tokens.insert(r.options.end_tokens.end(), end_tokens.begin(), end_tokens.end());
  }
  auto stream = use.submit(std::move(requests), pieces, notifier);
  return std::make_unique<Stream>(model, std::move(stream));
}

nb::dict config(const std::shared_ptr<SharedModel>& model) {
  const SharedModel::Use use(*model);
  nb::dict fields;
  const core::ModelConfig& c = use.loaded().config();
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

nb::dict statistics(const std::shared_ptr<SharedModel>& model) {
  return dict_of(SharedModel::Use(*model).engine().statistics());
}

nb::dict about(const std::shared_ptr<SharedModel>& model) {
  const SharedModel::Use use(*model);
  nb::dict d;
  d["name"] = use.served().name;
  d["path"] = use.loaded().file().path;
  d["context"] = use.served().context;
  d["chat"] = use.served().chat_template.has_value();
  d["threads"] = use.loaded().machines().n_threads();
  d["vocab_size"] = use.tokenizer().vocab_size();
  d["tokenizer"] = use.tokenizer().kind();
  d["bos"] = use.tokenizer().begin_of_text();
  d["eos"] = use.tokenizer().end_of_text();
  return d;
}

nb::dict tensors(const std::shared_ptr<SharedModel>& model) {
  const SharedModel::Use use(*model);
  nb::dict shapes;
  for (const core::TensorSpec& spec : core::tensor_manifest(use.loaded().config())) {
    shapes[spec.gguf_name.c_str()] = nb::tuple(nb::cast(spec.shape));
  }
  return shapes;
}

nb::object tensor(const std::shared_ptr<SharedModel>& model, const std::string& name) {
  const SharedModel::Use use(*model);
  const auto manifest = core::tensor_manifest(use.loaded().config());
  const auto found = std::ranges::find(manifest, name, &core::TensorSpec::gguf_name);
  core::require(found != manifest.end(), "{}: the model has no tensor {}; Model.tensors lists them",
                use.loaded().file().path, core::printable(name));
  const auto index = static_cast<size_t>(found - manifest.begin());
  return array_of(core::to_floats(use.loaded().file().tensors[index]), {found->shape.begin(), found->shape.end()});
}

Json only(const char* name, nb::handle value) { return {{name, json_of(value)}}; }

void bind_model(nb::module_& m) {
  nb::class_<infer::Notifier>(m, "Notifier")
      .def("__init__", [](infer::Notifier* self) { new (self) infer::Notifier(); })
      .def("fileno", &infer::Notifier::fd)
      .def("clear", &infer::Notifier::clear);
  nb::class_<Stream>(m, "Stream")
      .def(
          "wait", [](Stream& s, double timeout) { return pieces_of(s.wait(timeout)); },
          nb::arg("timeout") = std::numeric_limits<double>::infinity())
      .def("poll", [](Stream& s) { return pieces_of(s.poll()); })
      .def("results", [](Stream& s) { return results_of(s.results()); })
      .def("cancel", &Stream::cancel)
      .def_prop_ro("ended", &Stream::ended);
  nb::class_<SharedModel>(m, "Model")
      .def_prop_ro("closed", &SharedModel::closed)
      .def("close", &SharedModel::close, nb::call_guard<WithoutGil>());
  m.def("open", &open);
  m.def("wait_for_threads", &wait_for_threads);
  m.def("submit", &submit, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg("notifier").none() = nb::none(),
        nb::arg("end_tokens") = std::vector<int32_t>(), nb::arg("forms") = "");
  m.def("logits", &logits);
  m.def("trace", &trace);
  m.def("score", &score);
  m.def("config", &config);
  m.def("tensors", &tensors);
  m.def("tensor", &tensor);
  m.def("statistics", &statistics);
  m.def("about", &about);
  m.def("encode", [](const std::shared_ptr<SharedModel>& model, const std::string& text, bool prefix) {
    const SharedModel::Use use(*model);
    return prefix ? use.tokenizer().encode_with_prefix(text) : use.tokenizer().encode(text);
  });
  m.def("decode", [](const std::shared_ptr<SharedModel>& model, nb::handle ids) {
    const SharedModel::Use use(*model);
    return text_of(use.tokenizer().decode(infer::server::parse_detokenize(only("tokens", ids), use.served())));
  });
  m.def("token_bytes", [](const std::shared_ptr<SharedModel>& model, int32_t id) {
    const SharedModel::Use use(*model);
    core::require(id >= 0 && id < use.tokenizer().vocab_size(),
                  "there is no token {}: the vocabulary has the ids 0 to {}", id, use.tokenizer().vocab_size() - 1);
    const std::string& bytes = use.tokenizer().token_bytes(id);
    return nb::bytes(bytes.data(), bytes.size());
  });
  m.def("encode_chat", [](const std::shared_ptr<SharedModel>& model, nb::handle messages) {
    const SharedModel::Use use(*model);
    return infer::server::parse_tokenize(only("messages", messages), use.served());
  });
}

// The field that is wrong is the exception's second argument, and the code its third: folio/model.py makes a TypeError
// or a ValueError of it.
void throw_api_error(const std::exception_ptr& error, void* type) {
  try {
    std::rethrow_exception(error);
  } catch (const infer::server::ApiError& e) {
    const Json json = e.json()["error"];
    const nb::object args = nb::make_tuple(text_of(e.what()), object_of(json["param"]), object_of(json["code"]));
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
  nb::set_leak_warnings(false);  // a model that lives to the end of the interpreter is no leak
  const nb::object error = nb::steal(PyErr_NewException("folio.Error", PyExc_Exception, nullptr));
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
