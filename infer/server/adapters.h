// The adapters of a server: their names, which of them the engine holds, and what uses them. The least recently used is
// dropped from memory when another needs the space, and read again from its folder, on a thread of its own, when a
// request names it. Every call comes from the service's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "infer/engine/async_engine.h"
#include "infer/server/api.h"
#include "infer/server/worker.h"

namespace folio::infer::server {

struct NamedAdapter {
  std::string name;
  std::string path;    ///< a directory as peft writes it
  float scale = 1.0F;  ///< times the adapter's own
};

struct AdapterOptions {
  std::vector<NamedAdapter> adapters{};  ///< that are there from the beginning
  bool allow_loading = false;            ///< clients may name others, and take them away
  size_t memory = SIZE_MAX;              ///< bytes of those that the engine holds, as floats
  size_t most = 1024;                    ///< names
};

/// {"lora_name": text, "lora_path": text}, as vLLM's. Throw as parse_completion() does.
[[nodiscard]] NamedAdapter parse_load_adapter(const Json& body);
/// {"lora_name": text}
[[nodiscard]] std::string parse_unload_adapter(const Json& body);

class Adapters {
 public:
  using Post = std::function<void(std::function<void()> work)>;

  /// Reads all of `options.adapters`, and gives the engine those for which there is room. No adapter may be called
  /// `base`. `post` runs work on the service's thread, soon. Throws core::Error that names the adapter.
  Adapters(AsyncEngine& engine, std::string base, AdapterOptions options, Post post);
  Adapters(const Adapters&) = delete;
  Adapters& operator=(const Adapters&) = delete;

  class Use;
  /// Gets the number for GenerateOptions::adapter, or why there is none.
  using Ready = std::function<void(int32_t number, const std::optional<ApiError>& error)>;
  /// Calls `ready` once the engine holds the adapter, which may be after others have ended that leave no space for it,
  /// in the order of the calls. It is held until what is returned goes. `name` is one of names().
  [[nodiscard]] std::shared_ptr<Use> use(const std::string& name, Ready ready);

  /// Reads the folder, and then names it. `done` gets why it can't be, or nothing: 400, or 404 where no adapter is.
  void add(NamedAdapter adapter, std::function<void(const std::optional<ApiError>&)> done);
  /// The name is gone. Who uses the adapter keeps it. Throws ApiError 404 if there is none.
  void remove(const std::string& name);

  /// Ends the thread that reads folders.
  void stop() { reader_.stop(); }

  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool allows_loading() const { return options_.allow_loading; }
  /// For Metrics::text().
  [[nodiscard]] std::string metrics() const;

 private:
  struct Entry;

  void check_name(const std::string& name) const;
  void read_folder(const std::shared_ptr<Entry>& entry);
  void was_read(const std::shared_ptr<Entry>& entry, std::shared_ptr<const core::Adapter> adapter);
  void was_loaded(const std::shared_ptr<Entry>& entry, int32_t number);
  void failed(const std::shared_ptr<Entry>& entry, const ApiError& error);
  [[nodiscard]] bool make_room(size_t bytes);
  void hold(const std::shared_ptr<Entry>& entry);
  void forget(const std::shared_ptr<Entry>& entry);
  void drop(const std::shared_ptr<Entry>& entry);
  void drop_if_gone(const std::shared_ptr<Entry>& entry);
  void release(const Use& use);
  void serve_waiting();
  [[nodiscard]] bool is_idle(const std::shared_ptr<Entry>& entry) const;

  AsyncEngine& engine_;
  std::string base_;
  AdapterOptions options_;
  Post post_;
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> named_;  ///< or soon
  std::set<std::shared_ptr<Entry>> held_;   ///< by the engine, or soon; also of names that are gone
  std::deque<std::weak_ptr<Use>> waiting_;  ///< in the order in which they came
  size_t bytes_ = 0;                        ///< of those that are held
  uint64_t now_ = 0;                        ///< counts uses
  uint64_t n_loads_ = 0;
  uint64_t n_drops_ = 0;
  Worker reader_;  ///< the last member: it uses the others
};

/// A request's use of an adapter.
class Adapters::Use {
 public:
  ~Use() { owner_.release(*this); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  friend class Adapters;
  Use(Adapters& owner, std::shared_ptr<Entry> entry, Ready ready)
      : owner_(owner), entry_(std::move(entry)), ready_(std::move(ready)) {}

  Adapters& owner_;
  std::shared_ptr<Entry> entry_;
  Ready ready_;
  int32_t number_ = kNoAdapter;  ///< not yet
};

}  // namespace folio::infer::server
