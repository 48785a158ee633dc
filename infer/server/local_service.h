// The service without HTTP, for callers on any threads of this process. It has a thread of its own.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infer/engine/text_stream.h"
#include "infer/server/service.h"
#include "infer/server/worker.h"

namespace folio::infer::server {

/// The answer to a request. One thread at a time may read it.
class LocalReply {
 public:
  /// Gives up.
  ~LocalReply();
  LocalReply(const LocalReply&) = delete;
  LocalReply& operator=(const LocalReply&) = delete;

  /// The status, or 0 if there was none within `at_most`. With it the headers are there.
  [[nodiscard]] int status(std::chrono::milliseconds at_most);
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> headers() const;
  /// Returns what is new of the body, waiting for it no longer than `at_most`. While it is not read, no more is made.
  [[nodiscard]] std::string next(std::chrono::milliseconds at_most);
  /// Nothing more comes, and all was returned.
  [[nodiscard]] bool ended() const;
  /// Cancels the request, if it has not ended.
  void give_up();

 private:
  friend class LocalService;
  struct State;
  explicit LocalReply(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class LocalService {
 public:
  /// As Service. A request may name the hosts of the options and localhost.
  LocalService(AsyncEngine& engine, ServedModel served, ServiceOptions options);
  ~LocalService();
  LocalService(const LocalService&) = delete;
  LocalService& operator=(const LocalService&) = delete;

  /// Any thread. `notifier` may be null. A service that was stopped answers 503.
  [[nodiscard]] std::unique_ptr<LocalReply> request(HttpRequest request, std::shared_ptr<Notifier> notifier = {});
  /// What runs ends with an error (503).
  void stop();

 private:
  bool look();

  std::shared_ptr<Worker> worker_;  ///< the service's thread. Replies hold it, too, and may outlive the service
  Service service_;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace folio::infer::server
