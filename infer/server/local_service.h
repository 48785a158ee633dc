// The service without HTTP: callers on any threads of this process ask it, and read answers as they come. It has a
// thread of its own, which sleeps while nothing happens.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "infer/engine/text_stream.h"
#include "infer/server/service.h"

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
  /// What is new of the body. Waits for it, but no longer than `at_most`; then nothing is returned. A body that is not
  /// read waits, and so does what makes it.
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
  /// The hosts that a request may name are those of the options and localhost. `engine` and its after_step as for
  /// Service; stop() has to be called before the engine goes.
  LocalService(AsyncEngine& engine, ServedModel served, ServiceOptions options);
  ~LocalService();
  LocalService(const LocalService&) = delete;
  LocalService& operator=(const LocalService&) = delete;

  /// Any thread. `notifier`, which may be none, is told when the reply has something new. A service that was stopped
  /// answers 503.
  [[nodiscard]] std::unique_ptr<LocalReply> request(HttpRequest request, std::shared_ptr<Notifier> notifier = {});
  /// From the engine's thread.
  void after_step(Engine& engine) { service_.after_step(engine); }
  /// What runs ends with an error (503).
  void stop();

 private:
  struct Queue;
  friend class LocalReply;
  void run();

  std::shared_ptr<Queue> queue_;
  Service service_;
  std::thread thread_;  ///< the last member: it uses the others
};

}  // namespace folio::infer::server
