#include "src/shared_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "infer/sampling/sampler.h"

namespace folio::python {
namespace {

using infer::server::Json;

constexpr int64_t kMaxTokens = 256;      // default max_tokens of generate()
constexpr int64_t kMostTexts = 1 << 20;  // maximum number of choices in one call

}  // namespace

std::string model_file_of(const std::string& path) {
  const std::filesystem::path in_run = std::filesystem::path(path) / "model.gguf";
  return core::path_exists(in_run) ? in_run.string() : path;
}

SharedModel::Parts::Parts(const std::string& path, const OpenOptions& options)
    : loaded(infer::LoadedModel::open(path, options.load)),
      served{.name = options.name.empty() ? infer::server::model_name(path) : options.name,
             .context = loaded.context(),
             .tokenizer = loaded.tokenizer(),
             .chat_template = data::find_chat_template(loaded.tokenizer(), loaded.file().path, options.chat_template),
             .speculate = options.speculate,
             .max_choices = kMostTexts,
             .sampler = loaded.sampler_defaults(),
             .machine = loaded.machines().describe()},
      n_at_once(std::max<size_t>(256, 2 * options.load.limits.max_sequences)),
      async(std::make_shared<infer::AsyncEngine>(loaded.engine())) {
  served.forms = std::make_shared<infer::server::AnswerForms>(served.tokenizer, served.chat_template);
}

SharedModel::SharedModel(const std::string& path, const OpenOptions& options)
    : parts_(std::make_unique<Parts>(model_file_of(path), options)) {}

SharedModel::~SharedModel() { close(); }

SharedModel::Use::Use(SharedModel& model) : model_(model) {
  const std::lock_guard lock(model.mutex_);
  core::require(!model.closed_, "the model is closed; open it again");
  ++model.n_users_;
}

SharedModel::Use::~Use() {
  const std::lock_guard lock(model_.mutex_);
  if (--model_.n_users_ == 0) model_.changed_.notify_all();
}

infer::server::LocalService& SharedModel::Use::service() const {
  const std::lock_guard lock(model_.mutex_);
  core::require(model_.parts_->service != nullptr, "the model is not serving requests yet; create a Service for it");
  return *model_.parts_->service;
}

void SharedModel::serve(infer::server::ServiceOptions options) {
  const Use use(*this);
  infer::server::ServedModel served = use.served();
  served.max_choices = infer::server::kMostChoices;
  served.sampler = use.loaded().sampler_defaults(infer::SamplerOptions::of_requests());
  served.adapter = use.loaded().adapter();
  auto service = std::make_unique<infer::server::LocalService>(use.engine(), std::move(served), std::move(options));
  const std::lock_guard lock(mutex_);
  core::require(parts_->service == nullptr, "the model already has a Service; only one is supported");
  parts_->service = std::move(service);
}

void SharedModel::close() {
  std::unique_lock lock(mutex_);
  if (closed_.exchange(true)) return changed_.wait(lock, [this] { return is_freed_; });
  lock.unlock();
  parts_->async->stop();
  lock.lock();
  changed_.wait(lock, [this] { return n_users_ == 0; });
  lock.unlock();  // calls on a closed model must not wait while memory is freed
  parts_.reset();
  lock.lock();
  is_freed_ = true;
  changed_.notify_all();
}

namespace {

// Returns the parser's options: the work budget of a server request, plus one step for each byte of the prompts.
infer::server::ParseOptions parse_options(const Json& body) {
  uint64_t n_bytes = 0;
  const auto add = [&](const Json& text) {
    if (text.is_string()) n_bytes += text.get_ref<const std::string&>().size();
  };
  if (const auto prompt = body.find("prompt"); prompt != body.end()) {
    add(*prompt);
    for (const Json& one : prompt->is_array() ? *prompt : Json::array()) add(one);
  }
  return {.budget = core::WorkBudget(core::kDefaultWork + n_bytes), .splits_reasoning = false};
}

}  // namespace

infer::server::CompletionRequest parse_request(const SharedModel::Use& use, bool chat, const std::string& text,
                                               uint64_t random_seed) {
  Json body = Json::parse(text);
  if (chat) return infer::server::parse_chat(body, use.served(), random_seed, text, parse_options(body));
  if (!body.contains("max_tokens") || body["max_tokens"].is_null()) body["max_tokens"] = kMaxTokens;
  return infer::server::parse_completion(body, use.served(), random_seed, text, parse_options(body));
}

std::vector<infer::Request> engine_requests(const SharedModel::Use& use, infer::server::CompletionRequest request) {
  const int32_t adapter = use.loaded().adapter();
  // Structured output needs the tokenizer that its schema was compiled for, which decodes reasoning markers as text.
  const data::Tokenizer& tokenizer = request.options.form ? use.served().forms->tokenizer() : use.tokenizer();
  std::vector<infer::Request> requests;
  for (infer::server::Prompt& prompt : request.prompts) {
    requests.push_back({.prompt = std::move(prompt.tokens), .options = request.options, .tokenizer = &tokenizer});
    requests.back().options.adapter = adapter;
  }
  return requests;
}

}  // namespace folio::python
