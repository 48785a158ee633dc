// A model shared by Python threads. Its engine runs on a separate thread. Each call on the model creates a Use object,
// and close() waits until all are destroyed. Does not depend on Python.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "infer/engine/loaded_model.h"
#include "infer/engine/text_stream.h"
#include "infer/server/api.h"
#include "infer/server/local_service.h"

namespace folio::python {

struct OpenOptions {
  std::string name{};           ///< the model's name in requests; empty: derived from the path
  std::string chat_template{};  ///< name of a template, or a Jinja file; empty: the model's own
  size_t speculate = 0;
  infer::LoadOptions load{};
};

/// Returns the model file of a run if `path` is the directory of a run, otherwise `path`.
[[nodiscard]] std::string model_file_of(const std::string& path);

class SharedModel {
 public:
  SharedModel(const std::string& path, const OpenOptions& options);
  /// Closes the model. The calling thread must not hold a lock that the engine's thread waits for.
  ~SharedModel();
  SharedModel(const SharedModel&) = delete;
  SharedModel& operator=(const SharedModel&) = delete;

  /// Keeps the model open during its lifetime. Throws core::Error if the model is closed.
  class Use {
   public:
    explicit Use(SharedModel& model);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    [[nodiscard]] infer::LoadedModel& loaded() const { return model_.parts_->loaded; }
    [[nodiscard]] const data::Tokenizer& tokenizer() const { return loaded().tokenizer(); }
    [[nodiscard]] const infer::server::ServedModel& served() const { return model_.parts_->served; }
    [[nodiscard]] infer::AsyncEngine& engine() const { return *model_.parts_->async; }
    /// Submits requests and returns a stream of their outputs. If `pieces` is false, it has only final results. Calls
    /// `on_delivery`, usually on the engine's thread, when there is new output.
    [[nodiscard]] std::shared_ptr<infer::TextStream> submit(std::vector<infer::Request> requests, bool pieces,
                                                            std::function<void()> on_delivery = {}) const {
      return infer::TextStream::submit(model_.parts_->async, std::move(requests), pieces,
                                       {.n_at_once = model_.parts_->n_at_once, .on_delivery = std::move(on_delivery)});
    }
    /// Returns the service. Throws core::Error before serve().
    [[nodiscard]] infer::server::LocalService& service() const;

   private:
    SharedModel& model_;
  };

  /// Creates the model's service. Throws core::Error if it already has one.
  void serve(infer::server::ServiceOptions options);
  /// Aborts running requests, waits until all Use objects are destroyed, and frees the memory.
  void close();
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  // `service` is last, so that it is destroyed before the members that it uses.
  struct Parts {
    explicit Parts(const std::string& path, const OpenOptions& options);
    infer::LoadedModel loaded;
    infer::server::ServedModel served;
    size_t n_at_once;  ///< maximum requests of one call submitted at a time
    std::shared_ptr<infer::AsyncEngine> async;
    std::unique_ptr<infer::server::LocalService> service;  ///< null before serve(); guarded by mutex_
  };

  std::unique_ptr<Parts> parts_;
  mutable std::mutex mutex_;         ///< guards the members below
  std::condition_variable changed_;  ///< signals that n_users_ has become 0, or is_freed_ true
  size_t n_users_ = 0;
  bool is_freed_ = false;
  std::atomic<bool> closed_ = false;  ///< modified with the mutex held, read without it
};

/// Parses the JSON body of a completion request, or of a chat request if `chat` is true. Defaults: the model's sampling
/// values, max_tokens 256 (for chats, as many as fit), and seed `random_seed`. Throws infer::server::ApiError.
[[nodiscard]] infer::server::CompletionRequest parse_request(const SharedModel::Use& use, bool chat,
                                                             const std::string& text, uint64_t random_seed);

/// Returns one engine request per prompt, each of which generates all choices of its prompt.
[[nodiscard]] std::vector<infer::Request> engine_requests(const SharedModel::Use& use,
                                                          infer::server::CompletionRequest request);

}  // namespace folio::python
