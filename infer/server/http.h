// An HTTP/1.1 server on one thread, which also calls the handlers. Only http.cpp includes Boost.Asio.
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
  size_t max_body_bytes = size_t{256} << 20U;  ///< total of the request bodies being read, on all connections
  size_t max_connections = 4096;
  std::chrono::seconds idle_timeout{75};   ///< between two requests
  std::chrono::seconds read_timeout{60};   ///< from a request's first byte to its last
  std::chrono::seconds write_timeout{60};  ///< without a byte accepted by the client
  /// Clock of write_timeout; tests replace it.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

struct Connections;  // defined in http.cpp, with types of Boost

class HttpServer {
 public:
  struct Handlers {
    /// Called before the body is read. Returns false if the request was answered, or will be, without its body.
    std::function<bool(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply)> admit;
    /// Called with the whole request.
    std::function<void(HttpRequest request, const std::shared_ptr<HttpReply>& reply)> handle;
    /// Returns the JSON body of an error answer to anything that is not a valid request.
    std::function<std::string(int status, std::string_view why)> refuse;
  };

  /// Starts to listen. Throws core::Error that names host and port if that fails.
  HttpServer(const HttpOptions& options, Handlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] uint16_t port() const;
  /// Returns the listening address, such as 127.0.0.1 or [::1].
  [[nodiscard]] std::string address() const;

  /// Serves requests until close().
  void run();
  /// Stops accepting connections and requests. Clients have two seconds to read their answers.
  void close();

  /// Runs `work` on the thread of run(). The only function that can be called from any thread.
  void post(std::function<void()> work);
  /// Calls `work` repeatedly until close(), on the thread of run().
  void every(std::chrono::milliseconds interval, std::function<void()> work);
  /// Calls `work` for each SIGINT, SIGTERM and SIGHUP, on the thread of run(). SIGHUP stays ignored under nohup.
  void on_signal(std::function<void()> work);

 private:
  std::unique_ptr<Connections> connections_;
};

}  // namespace folio::infer::server
