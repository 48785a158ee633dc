// An HTTP/1.1 server. One thread does all of it, and calls the handlers. Boost.Asio is used in http.cpp only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "infer/server/http_reply.h"
#include "infer/server/request_reader.h"

namespace folio::infer::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  ///< 0: a free one
  RequestLimits limits{};
  size_t max_body_bytes = size_t{256} << 20U;  ///< of the bodies that are being read, on all connections
  size_t max_connections = 4096;
  std::chrono::seconds idle_timeout{75};   ///< between two requests
  std::chrono::seconds read_timeout{60};   ///< from a request's first byte to its last
  std::chrono::seconds write_timeout{60};  ///< without a byte that the client took
  /// The clock of write_timeout; a test has its own.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

struct Connections;  // with Boost in it

class HttpServer {
 public:
  struct Handlers {
    /// Called before the body is read. Returns false if it has answered, or will, without the body.
    std::function<bool(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply)> admit;
    /// The whole request.
    std::function<void(HttpRequest request, const std::shared_ptr<HttpReply>& reply)> handle;
    /// Returns the body, as JSON, of the answer to something that is not a request.
    std::function<std::string(int status, std::string_view why)> refuse;
  };

  /// Listens from now on. Throws core::Error, which names host and port, if it can't.
  HttpServer(const HttpOptions& options, Handlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] uint16_t port() const;
  /// Such as 127.0.0.1, or [::1].
  [[nodiscard]] std::string address() const;

  /// Serves until close().
  void run();
  /// Accepts no more connections and requests. Clients have two seconds to read their answers.
  void close();

  /// Runs `work` on the thread of run(). The one call that any thread may make.
  void post(std::function<void()> work);
  /// Until close(), on the thread of run().
  void every(std::chrono::milliseconds interval, std::function<void()> work);
  /// For each SIGINT, SIGTERM and SIGHUP, on the thread of run(). A SIGHUP that nohup ignores stays ignored.
  void on_signal(std::function<void()> work);

 private:
  std::unique_ptr<Connections> connections_;
};

}  // namespace folio::infer::server
