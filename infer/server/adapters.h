// The LoRA adapters of a server: their names, which of them are in memory, and which requests use them. When memory is
// needed, the least recently used adapter is unloaded. When a request names it again, a separate thread reads it from
// disk. All calls must come from the service's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "infer/engine/async_engine.h"
#include "infer/server/api.h"
#include "infer/server/worker.h"

namespace folio::infer::server {

struct NamedAdapter {
  std::string name;
  std::string path;    ///< a directory in peft's format, or a GGUF file
  float scale = 1.0F;  ///< multiplies the adapter's own scale
};

struct AdapterOptions {
  std::vector<NamedAdapter> adapters{};  ///< available from the start
  bool allow_loading = false;            ///< clients can load and unload adapters
  size_t memory = SIZE_MAX;              ///< maximum total size of the adapters in memory, in bytes
  size_t most = 1024;                    ///< maximum number of adapters, in memory or not
};

/// Parses {"lora_name": text, "lora_path": text}, as in vLLM's API. Throws ApiError 400 if a field is invalid.
[[nodiscard]] NamedAdapter parse_load_adapter(const Json& body);
/// Parses {"lora_name": text} and returns the name. Throws ApiError 400 if a field is invalid.
[[nodiscard]] std::string parse_unload_adapter(const Json& body);

class Adapters {
 public:
  using Post = std::function<void(std::function<void()> work)>;

  /// Reads all of `options.adapters`, and loads as many as fit in memory. `base` is the model's name, which no adapter
  /// may have. `post` queues work for the service's thread. If an adapter is invalid, throws core::Error with its name.
  Adapters(AsyncEngine& engine, std::string base, AdapterOptions options, Post post);
  Adapters(const Adapters&) = delete;
  Adapters& operator=(const Adapters&) = delete;

  /// A request's use of an adapter. The adapter stays in memory as long as this object exists.
  struct Use;
  /// Receives the id for GenerateOptions::adapter, or the error if the adapter can't be loaded.
  using Ready = std::function<void(int32_t number, const std::optional<ApiError>& error)>;
  /// Calls `ready` once the adapter is in memory, which may take until other requests end. Requests get memory in the
  /// order of the calls. The adapter stays in memory until the result is destroyed. `name` must be one of names().
  [[nodiscard]] std::shared_ptr<Use> use(const std::string& name, Ready ready);

  /// Adds an adapter and reads its files on another thread. Throws ApiError 400 if the name is invalid or in use, or
  /// there are too many adapters. Calls `done` once, with nullopt or the error: 404 for missing files, 400 for invalid
  /// or too large ones.
  void add(NamedAdapter adapter, std::function<void(const std::optional<ApiError>&)> done);
  /// Removes the adapter from names(). Requests that use it continue. Throws ApiError 404 if there is no such adapter.
  void remove(const std::string& name);

  /// Ends the thread that reads adapters' files.
  void stop() { reader_.stop(); }

  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool allows_loading() const { return options_.allow_loading; }
  /// Returns the adapters' number, memory, loads and unloads in Prometheus' text format.
  [[nodiscard]] std::string metrics() const;

 private:
  struct Entry;

  void check_name(const std::string& name) const;
  void read_folder(const std::shared_ptr<Entry>& entry);
  void was_read(const std::shared_ptr<Entry>& entry, std::shared_ptr<const core::Adapter> adapter);
  void was_loaded(const std::shared_ptr<Entry>& entry, int32_t number);
  void failed(const std::shared_ptr<Entry>& entry, const ApiError& error);
  [[nodiscard]] bool evict_idle(size_t bytes);
  void hold(const std::shared_ptr<Entry>& entry);
  void forget(const std::shared_ptr<Entry>& entry);
  void unload(const std::shared_ptr<Entry>& entry);
  void unload_if_removed(const std::shared_ptr<Entry>& entry);
  void release(const Use& use);
  void serve_waiting();

  AsyncEngine& engine_;
  std::string base_;
  AdapterOptions options_;
  Post post_;
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> named_;  ///< includes adapters whose files are being read
  std::set<std::shared_ptr<Entry>> held_;   ///< in memory or being loaded; includes adapters whose name was removed
  std::deque<std::weak_ptr<Use>> waiting_;  ///< requests waiting for their adapter or for earlier requests, by arrival
  size_t bytes_ = 0;                        ///< total size of the adapters in held_
  uint64_t now_ = 0;                        ///< logical clock for the order of last uses: counts loads and ended uses
  uint64_t n_loads_ = 0;
  uint64_t n_unloads_ = 0;
  Worker reader_;  ///< reads adapters' files; declared last, since it uses the other members
};

}  // namespace folio::infer::server
