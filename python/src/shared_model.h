// A model that Python's threads share: it is loaded, its engine runs on a thread of its own, and whoever uses it holds
// a Use, so that close() waits for them. Knows nothing of Python.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "infer/engine/loaded_model.h"
#include "infer/engine/text_stream.h"
#include "infer/server/api.h"
#include "infer/server/local_service.h"

namespace folio::python {

struct OpenOptions {
  std::string name{};           ///< what requests call the model; empty: after its file
  std::string chat_template{};  ///< a name or a file; empty: the model's own
  size_t speculate = 0;
  infer::LoadOptions load{};
};

/// The model file of a run, where `path` is a run's folder; else `path`.
[[nodiscard]] std::string model_file_of(const std::string& path);

class SharedModel {
 public:
  SharedModel(const std::string& path, const OpenOptions& options);
  /// Closes it. No thread may hold what the engine's thread waits for.
  ~SharedModel();
  SharedModel(const SharedModel&) = delete;
  SharedModel& operator=(const SharedModel&) = delete;

  /// The model while somebody uses it. Throws core::Error if it was closed.
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
    /// `on_delivery` as in infer::EventQueueOptions.
    [[nodiscard]] std::shared_ptr<infer::TextStream> submit(std::vector<infer::Request> requests, bool pieces,
                                                            std::function<void()> on_delivery = {}) const {
      return infer::TextStream::submit(model_.parts_->async, std::move(requests), pieces,
                                       {.n_at_once = model_.parts_->n_at_once, .on_delivery = std::move(on_delivery)});
    }
    /// After serve().
    [[nodiscard]] infer::server::LocalService& service() const;

   private:
    SharedModel& model_;
  };

  /// From now on the model answers as a server. Throws core::Error if it does already.
  void serve(infer::server::ServiceOptions options);
  /// Ends what runs as interrupted, waits for those who use the model, and gives its memory back.
  void close();
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  // What stands below uses what stands above.
  struct Parts {
    explicit Parts(const std::string& path, const OpenOptions& options);
    infer::LoadedModel loaded;
    infer::server::ServedModel served;
    size_t n_at_once;                                            ///< requests of a call
    std::atomic<infer::server::LocalService*> serving{nullptr};  ///< the one below
    std::shared_ptr<infer::AsyncEngine> async;
    std::unique_ptr<infer::server::LocalService> service;
  };

  std::unique_ptr<Parts> parts_;
  mutable std::mutex mutex_;         ///< of what follows
  std::condition_variable changed_;  ///< n_users_ is 0, or is_freed_
  size_t n_users_ = 0;
  bool is_freed_ = false;
  std::atomic<bool> closed_ = false;  ///< changed with the mutex, read without
};

/// A request for texts, "chat" or not, from the fields of the server's; where a sampler's number or max_tokens is not
/// said, it is as in `generate`. `forms` has the fields that say a form once more, as JSON whose keys are in their
/// order; empty: there are none. Throws infer::server::ApiError.
[[nodiscard]] infer::server::CompletionRequest parse_request(const SharedModel::Use& use, bool chat,
                                                             infer::server::Json body, uint64_t random_seed,
                                                             std::string_view forms = {});

/// The engine's requests for these texts, each with its choices.
[[nodiscard]] std::vector<infer::Request> engine_requests(const SharedModel::Use& use,
                                                          infer::server::CompletionRequest request);

}  // namespace folio::python
