// HTTP/1.1 as data: requests come in whole, an answer goes out whole or as a stream. One thread does all of it, and
// calls the handlers; nothing here knows what is asked. The network is Boost.Asio's, in http.cpp alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "infer/server/request_reader.h"

namespace folio::infer::server {

struct HttpRequest {
  std::string method{};    ///< GET for HEAD
  bool head_only = false;  ///< it was HEAD: no body is sent
  std::string path{};      ///< without the query
  std::string body{};
  // Headers; empty where there is none.
  std::string host{};
  std::string origin{};
  std::string content_type{};
  std::string authorization{};
  /// Of a caller in this process, who wants to repeat a request that names no seed: taken where it doesn't.
  std::optional<uint64_t> random_seed{};
};

/// The answer to one request. Every call comes from the thread that called the handler. What is written for a client
/// that went away goes nowhere.
class HttpReply {
 public:
  virtual ~HttpReply() = default;

  /// Before send() or begin().
  virtual void add_header(std::string_view name, std::string_view value) = 0;
  /// A whole answer. Without a content type it has no body.
  virtual void send(int status, std::string_view content_type, std::string_view body) = 0;
  /// An answer in pieces, chunked.
  virtual void begin(int status, std::string_view content_type) = 0;
  virtual void write(std::string_view piece) = 0;
  virtual void end() = 0;
  /// Breaks an answer off, so that the client does not take it for a whole one.
  virtual void abort() = 0;
  /// Called once, if the client goes away before the end, or reads nothing for as long as it may.
  virtual void on_lost(std::function<void()> lost) = 0;

  /// Bytes of the answer that the client has not read yet. Nothing bounds them: who writes much waits while they are
  /// kReplyWindow or more.
  [[nodiscard]] virtual size_t unsent() const = 0;
  /// Called each time that these become fewer than kReplyWindow, until the answer ends; not from within other calls.
  virtual void on_writable(std::function<void()> writable) = 0;
};

inline constexpr size_t kReplyWindow = size_t{64} << 10U;

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
    /// Called before the body is read. False: it has answered, or will, and the body is not needed.
    std::function<bool(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply)> admit;
    /// The whole request.
    std::function<void(HttpRequest request, const std::shared_ptr<HttpReply>& reply)> handle;
    /// The server refuses something that is not a request: returns the body of the answer, as JSON.
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
  /// No new connections, and no further request on the old ones. Clients have two seconds to read their answers.
  void close();

  /// Runs `work` on the thread of run(). The one call that any thread may make.
  void post(std::function<void()> work);
  /// Until close(), on the thread of run().
  void every(std::chrono::milliseconds interval, std::function<void()> work);
  /// For each SIGINT, SIGTERM and SIGHUP from now on, on the thread of run(). A SIGHUP that is ignored, as by nohup,
  /// stays so.
  void on_signal(std::function<void()> work);

 private:
  std::unique_ptr<Connections> connections_;
};

}  // namespace folio::infer::server
