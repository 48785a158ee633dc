// An HTTP/1.1 server. The thread that calls run() serves all connections and calls the handlers.
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
  uint16_t port = 8080;  ///< 0: any free port
  RequestLimits limits{};
  size_t max_body_bytes = size_t{256} << 20U;  ///< maximum total size of request bodies, until they are parsed
  std::chrono::seconds write_timeout{60};      ///< maximum time without a byte accepted by the client
};

struct Connections;  // defined in http.cpp, since it uses Boost

class HttpServer {
 public:
  struct Handlers {
    /// Called before the body is read. Returns true to read the body and call handle(), or false if the request is
    /// answered without its body, now or later.
    std::function<bool(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply)> admit;
    /// Called with the whole request, including its body.
    std::function<void(HttpRequest request, const std::shared_ptr<HttpReply>& reply)> handle;
    /// Returns the JSON body of the answer to a request that is not valid HTTP. `status` is the answer's HTTP status.
    /// `why` is the error message.
    std::function<std::string(int status, std::string_view why)> refuse;
  };

  /// Starts to listen. If that fails, throws a core::Error whose message contains the host and port.
  HttpServer(const HttpOptions& options, Handlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] uint16_t port() const;
  /// Returns the listening address, such as 127.0.0.1 or [::1].
  [[nodiscard]] std::string address() const;

  /// Serves requests until close().
  void run();
  /// Stops accepting connections and requests. Clients have two seconds to read their answers; then run() returns.
  void close();

  /// Runs `work` on the thread of run(). Unlike all other functions, it can be called from any thread.
  void post(std::function<void()> work);
  /// Calls `work` ten times a second until close(), on the thread of run(). Only one such function can be set.
  void on_tick(std::function<void()> work);
  /// Calls `work` for each SIGINT, SIGTERM and (unless ignored, as by nohup) SIGHUP, on the thread of run().
  void on_signal(std::function<void()> work);

 private:
  std::unique_ptr<Connections> connections_;
};

}  // namespace folio::infer::server
