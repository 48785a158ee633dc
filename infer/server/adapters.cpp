#include "infer/server/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/formats/adapter_files.h"
#include "infer/server/fields.h"
#include "infer/server/metrics.h"

namespace folio::infer::server {
namespace {

size_t bytes_of(const core::Adapter& adapter) {
  size_t n = 0;
  for (const core::Adapter::Part& part : adapter.parts) n += part.a.size() + part.b.size();
  return n * sizeof(float);
}

std::shared_ptr<const core::Adapter> read(const NamedAdapter& adapter, const core::ModelConfig& config) {
  return std::make_shared<const core::Adapter>(core::read_adapter(adapter.path, config, adapter.scale));
}

// Returns the exception that is being handled as an error of the API, which names the path if the files can't be used.
ApiError error_of_path() {
  const ApiError error = api_error(std::current_exception());
  return error.status() == 400 ? ApiError(400, error.what(), "lora_path") : error;
}

std::string text_of(const Fields& fields, const std::string& name) {
  const std::string* text = fields.text(name);
  if (text == nullptr || text->empty()) refuse(name, "must be a string that is not empty");
  return *text;
}

}  // namespace

NamedAdapter parse_load_adapter(const Json& body) {
  const Fields fields(body, schema("LoadAdapterRequest"));
  fields.only("load_inplace", false);
  NamedAdapter adapter{.name = text_of(fields, "lora_name"), .path = text_of(fields, "lora_path")};
  constexpr size_t kMostBytes = 4096;
  if (core::printable(adapter.path, kMostBytes) != adapter.path) refuse("lora_path", "is not a valid path");
  return adapter;
}

std::string parse_unload_adapter(const Json& body) {
  return text_of(Fields(body, schema("UnloadAdapterRequest"), {"lora_int_id"}), "lora_name");
}

struct Adapters::Entry {
  NamedAdapter adapter;
  size_t bytes = 0;
  bool named = false;
  int32_t number = kNoAdapter;  ///< the adapter's id in the engine, if it is in memory
  size_t n_uses = 0;            ///< number of requests that use the adapter in memory
  uint64_t last_use = 0;
  std::function<void(const std::optional<ApiError>&)> added{};  ///< callback of add(), until it is called

  [[nodiscard]] bool is_idle() const { return number != kNoAdapter && n_uses == 0; }
};

struct Adapters::Use {
  std::shared_ptr<Entry> entry;
  Ready ready;
  int32_t number = kNoAdapter;  ///< the adapter's id in the engine; kNoAdapter while the request waits
};

Adapters::Adapters(AsyncEngine& engine, std::string base, AdapterOptions options, Post post)
    : engine_(engine), base_(std::move(base)), options_(std::move(options)), post_(std::move(post)) {
  for (const NamedAdapter& adapter : options_.adapters) {
    try {
      check_name(adapter.name);
    } catch (const ApiError& error) {
      core::fail("--adapter: {}", error.what());
    }
    const auto entry = std::make_shared<Entry>(Entry{.adapter = adapter, .named = true});
    auto weights = read(adapter, engine_.config());
    entry->bytes = bytes_of(*weights);
    core::require(entry->bytes <= options_.memory, "the adapter {} needs {} bytes, more than --adapter-memory {}",
                  adapter.name, entry->bytes, options_.memory);
    named_.emplace(adapter.name, entry);
    if (bytes_ + entry->bytes > options_.memory) continue;  // no memory left: loaded when a request uses it
    static_cast<void>(engine_.call_and_wait([&](Engine& e) { entry->number = e.load_adapter(*weights); }));
    hold(entry);
    ++n_loads_;
  }
}

// Throws ApiError 400 if the name is invalid or in use, or if no more adapters can be added. Few characters are valid,
// since names appear in logs, metrics and flags.
void Adapters::check_name(const std::string& name) const {
  constexpr size_t kMostBytes = 128;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/@:+-";
  if (name.empty() || name.size() > kMostBytes || name.find_first_not_of(kLetters) != std::string::npos) {
    throw ApiError(400,
                   fmt::format("the name of an adapter must be 1 to {} letters, digits and ._/@:+-, but is \"{}\"",
                               kMostBytes, core::printable(name.substr(0, kMostBytes))),
                   "lora_name");
  }
  if (name == base_)
    throw ApiError(400, fmt::format("{} is the name of the model itself; choose another", name), "lora_name");
  if (const auto found = named_.find(name); found != named_.end()) {
    const char* why = found->second->named ? "is loaded already; unload it first"
                                           : "is being loaded by another request; wait until that request is answered";
    throw ApiError(400, fmt::format("the adapter {} {}", name, why), "lora_name");
  }
  if (named_.size() >= options_.most) {
    throw ApiError(
        400, fmt::format("{} adapters are loaded already, the maximum (--max-adapters); unload one", named_.size()),
        "lora_name");
  }
}

void Adapters::add(NamedAdapter adapter, std::function<void(const std::optional<ApiError>&)> done) {
  check_name(adapter.name);
  const auto entry = std::make_shared<Entry>(Entry{.adapter = std::move(adapter), .added = std::move(done)});
  named_.emplace(entry->adapter.name, entry);
  reader_.post([this, entry] { read_folder(entry); });
}

void Adapters::remove(const std::string& name) {
  const auto found = named_.find(name);
  if (found == named_.end() || !found->second->named) {
    throw ApiError(404, fmt::format("there is no adapter {}", core::printable(name)), "lora_name", "model_not_found");
  }
  const auto entry = found->second;
  entry->named = false;
  named_.erase(found);
  unload_if_removed(entry);
}

std::vector<std::string> Adapters::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : named_) {
    if (entry->named) all.push_back(name);
  }
  return all;
}

std::shared_ptr<Adapters::Use> Adapters::use(const std::string& name, Ready ready) {
  const std::shared_ptr<Use> use(new Use{.entry = named_.at(name), .ready = std::move(ready)}, [this](Use* ended) {
    release(*ended);
    delete ended;
  });
  waiting_.push_back(use);
  post_([this] { serve_waiting(); });
  return use;
}

void Adapters::release(const Use& use) {
  if (use.number != kNoAdapter) {
    --use.entry->n_uses;
    use.entry->last_use = ++now_;
  }
  unload_if_removed(use.entry);
  if (!waiting_.empty()) post_([this] { serve_waiting(); });
}

// Starts waiting requests whose adapter is in memory, and loads the adapters of others as long as memory can be freed.
// Once it can't be freed for a request, all later requests wait, too, so that none overtakes an earlier one.
void Adapters::serve_waiting() {
  bool blocked = false;
  std::erase_if(waiting_, [&](const std::weak_ptr<Use>& one) {
    const auto use = one.lock();
    if (use == nullptr) return true;
    const auto& entry = use->entry;
    if (!blocked && entry->number != kNoAdapter) {
      ++entry->n_uses;
      use->number = entry->number;
      post_([one] {
        if (const auto still = one.lock()) still->ready(still->number, {});
      });
      return true;
    }
    if (blocked || held_.contains(entry)) return false;
    blocked = !evict_idle(entry->bytes);
    if (blocked) return false;
    hold(entry);
    reader_.post([this, entry] { read_folder(entry); });
    return false;
  });
}

bool Adapters::evict_idle(size_t bytes) {
  size_t most = options_.memory - bytes_;
  for (const auto& entry : held_) most += entry->is_idle() ? entry->bytes : 0;
  if (bytes > most) return false;
  while (bytes > options_.memory - bytes_) {
    std::shared_ptr<Entry> oldest;
    for (const auto& entry : held_) {
      if (entry->is_idle() && (oldest == nullptr || entry->last_use < oldest->last_use)) oldest = entry;
    }
    unload(oldest);
  }
  return true;
}

// Unloads an adapter that no request uses.
void Adapters::unload(const std::shared_ptr<Entry>& entry) {
  engine_.call([number = entry->number](Engine& e) { e.unload_adapter(number); });
  forget(entry);
  ++n_unloads_;
}

// Counts an adapter's memory as used, before the adapter is loaded.
void Adapters::hold(const std::shared_ptr<Entry>& entry) {
  bytes_ += entry->bytes;
  held_.insert(entry);
}

void Adapters::forget(const std::shared_ptr<Entry>& entry) {
  entry->number = kNoAdapter;
  bytes_ -= entry->bytes;
  held_.erase(entry);
}

// Unloads an adapter whose name was removed, unless a request uses it or waits for it.
void Adapters::unload_if_removed(const std::shared_ptr<Entry>& entry) {
  if (entry->named || !entry->is_idle()) return;
  const bool waits = std::ranges::any_of(waiting_, [&](const std::weak_ptr<Use>& one) {
    const auto use = one.lock();
    return use != nullptr && use->entry == entry;
  });
  if (!waits) unload(entry);
}

// Reads an adapter's files on the reader's thread. Uses only the entry's path and scale, which don't change.
void Adapters::read_folder(const std::shared_ptr<Entry>& entry) {
  std::shared_ptr<const core::Adapter> adapter;
  std::optional<ApiError> error;
  try {
    const std::filesystem::path path(entry->adapter.path);  // a GGUF file, or a directory in peft's format
    if (core::is_plain_file(path) || core::path_exists(path / "adapter_config.json")) {
      adapter = read(entry->adapter, engine_.config());
    } else {
      error.emplace(404, fmt::format("no adapter found: there is no {}/adapter_config.json", path.string()),
                    "lora_path");
    }
  } catch (...) {
    error = error_of_path();
  }
  post_(
      [this, entry, adapter = std::move(adapter), error] { error ? failed(entry, *error) : was_read(entry, adapter); });
}

void Adapters::was_read(const std::shared_ptr<Entry>& entry, std::shared_ptr<const core::Adapter> adapter) {
  const size_t bytes = bytes_of(*adapter);
  if (entry->added) {
    entry->bytes = bytes;
    if (bytes > options_.memory) {
      return failed(entry, ApiError(400,
                                    fmt::format("the adapter {} needs {} bytes, more than --adapter-memory {}",
                                                entry->adapter.name, bytes, options_.memory),
                                    "lora_path"));
    }
    // If memory is lacking or requests wait for it, only adds the name. A request that uses it reads the files again.
    if (!waiting_.empty() || !evict_idle(bytes)) return was_loaded(entry, kNoAdapter);
    hold(entry);
  } else if (bytes != entry->bytes) {
    return failed(
        entry, ApiError(400, fmt::format("it needs {} bytes, but needed {} before; unload it and load it again", bytes,
                                         entry->bytes)));
  }
  engine_.call([this, post = post_, entry, adapter = std::move(adapter)](Engine& engine) {
    int32_t number = kNoAdapter;
    std::optional<ApiError> error;
    try {
      number = engine.load_adapter(*adapter);
    } catch (...) {
      error = error_of_path();
    }
    post([this, entry, number, error] { error ? failed(entry, *error) : was_loaded(entry, number); });
  });
}

// Called when an adapter was loaded and has the id `number`. If `number` is kNoAdapter, only its files were read, since
// there was no memory to load it, or earlier requests wait.
void Adapters::was_loaded(const std::shared_ptr<Entry>& entry, int32_t number) {
  if (number != kNoAdapter) {
    entry->number = number;
    entry->last_use = ++now_;
    ++n_loads_;
  }
  if (const auto added = std::exchange(entry->added, {})) {
    entry->named = true;
    added({});
  }
  serve_waiting();
  unload_if_removed(entry);
}

void Adapters::failed(const std::shared_ptr<Entry>& entry, const ApiError& error) {
  if (held_.contains(entry)) forget(entry);
  if (const auto added = std::exchange(entry->added, {})) {
    named_.erase(entry->adapter.name);
    added(error);
  }
  const ApiError told(500, fmt::format("the adapter {} can't be reloaded: {}", entry->adapter.name, error.what()),
                      "model");
  std::erase_if(waiting_, [&](const std::weak_ptr<Use>& one) {
    const auto use = one.lock();
    if (use == nullptr || use->entry != entry) return false;
    post_([one, told] {
      if (const auto still = one.lock()) still->ready(kNoAdapter, told);
    });
    return true;
  });
  serve_waiting();
}

std::string Adapters::metrics() const {
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, auto value) {
    text += metric(name, type, help, static_cast<double>(value));
  };
  add("folio_adapters", "gauge", "Adapters that requests can use.", names().size());
  add("folio_adapters_held", "gauge", "Adapters in memory, including unloaded ones that requests still use.",
      held_.size());
  add("folio_adapter_bytes", "gauge", "Memory used by adapters, in bytes.", bytes_);
  add("folio_adapter_loads_total", "counter", "Adapters loaded into memory.", n_loads_);
  add("folio_adapter_drops_total", "counter", "Adapters dropped from memory.", n_unloads_);
  return text;
}

}  // namespace folio::infer::server
