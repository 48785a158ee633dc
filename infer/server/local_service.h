// The server's API without HTTP, for callers in the same process. It runs on its own thread.
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

/// The answer to a request of LocalService. Only one thread at a time may read it.
class LocalReply {
 public:
  /// Cancels the request, as give_up() does.
  ~LocalReply();
  LocalReply(const LocalReply&) = delete;
  LocalReply& operator=(const LocalReply&) = delete;

  /// Waits up to `at_most` for the HTTP status. Returns 0 if there is none yet; otherwise headers are available, too.
  [[nodiscard]] int status(std::chrono::milliseconds at_most);
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> headers() const;
  /// Waits up to `at_most` for new bytes of the body and returns them; empty if none came or no more will come. The
  /// body is produced only as fast as it is read. Throws core::Error after the last bytes of an incomplete answer.
  [[nodiscard]] std::string next(std::chrono::milliseconds at_most);
  /// Returns true once the answer has ended and all of it was returned.
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
  /// Starts the service. A request's Host must be localhost or one of options.allowed_hosts. Throws core::Error if an
  /// adapter in `options` is invalid.
  LocalService(AsyncEngine& engine, ServedModel served, ServiceOptions options);
  ~LocalService();
  LocalService(const LocalService&) = delete;
  LocalService& operator=(const LocalService&) = delete;

  /// Submits a request. Thread-safe. `notifier`, if not null, signals new output. After stop(), answers with error 503.
  [[nodiscard]] std::unique_ptr<LocalReply> request(HttpRequest request, std::shared_ptr<Notifier> notifier = {});
  /// Ends running requests with an error (503), and stops the service's thread.
  void stop();

 private:
  bool tick();

  std::shared_ptr<Worker> worker_;  ///< the service's thread, shared by replies that may outlive the service
  Service service_;
  std::chrono::steady_clock::time_point last_check_;
};

}  // namespace folio::infer::server
