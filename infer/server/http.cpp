// The HTTP server's connections. This is the only file that includes Boost.Asio, whose headers compile slowly.
#include "infer/server/http.h"

#include <fmt/format.h>

#include <utility>  // used by Boost 1.74, which doesn't include it
// This line keeps clang-format from moving <utility> below Boost's headers.
#include <array>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/http/status.hpp>
#include <csignal>
#include <optional>
#include <set>
#include <vector>

#include "core/error.h"

namespace folio::infer::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kReadSize = size_t{16} << 10U;      // bytes per read
constexpr size_t kMaxPipelined = size_t{16} << 10U;  // maximum bytes of later requests buffered during an answer
constexpr size_t kMaxSkipped = size_t{64} << 10U;    // maximum bytes of an unread body; if longer, disconnects
constexpr size_t kSendBuffer = size_t{64} << 10U;
constexpr size_t kMaxConnections = 4096;
constexpr std::chrono::seconds kIdleTimeout{75};  // maximum time between two requests of a connection
constexpr std::chrono::seconds kReadTimeout{60};  // maximum time from a request's first byte to its last
constexpr std::chrono::seconds kLinger{2};        // time for clients to read their last answer

}  // namespace

class Connection;

struct Connections {
  Connections(const HttpOptions& o, HttpServer::Handlers h) : options(o), handlers(std::move(h)) {}

  void accept();
  void tick();
  void wait_for_signal(std::function<void()> work);
  void end_if_done();
  [[nodiscard]] bool closing() const { return !acceptor.is_open(); }

  HttpOptions options;
  HttpServer::Handlers handlers;
  std::array<char, kReadSize> bytes{};   ///< input buffer shared by all connections
  std::atomic<size_t> n_body_bytes = 0;  ///< memory of all request bodies that are received or wait to be parsed
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer retry{io};
  asio::steady_timer ticker{io};
  std::function<void()> on_tick{};
  asio::signal_set signals{io};
  Clock::time_point closed_at;
  std::set<std::shared_ptr<Connection>> open;
};

// A connection: reads a request, answers it, and reads the next one. Detects disconnects during an answer.
class Connection final : public HttpReply {
 public:
  Connection(Connections& server, tcp::socket socket) : server_(server), socket_(std::move(socket)) {}

  void add_header(std::string_view name, std::string_view value) override {
    headers_ += fmt::format("{}: {}\r\n", name, value);
  }

  [[nodiscard]] size_t unsent() const override { return out_.size() + (writing_ ? in_flight_.size() - n_written_ : 0); }

  void check_deadline(Clock::time_point now) {
    if (now >= deadline_) lose();
  }

  void close_if_idle() {
    if (state_ == State::Reading) close();
  }

  using HttpReply::lose;

  void read_request() {
    if (server_.closing()) return drain();
    state_ = State::Reading;
    if (!reader_ || reader_->is_complete()) {  // otherwise the last request's body is being skipped
      reader_.emplace(server_.options.limits);
      skips_body_ = false;
      headers_.clear();
      deadline_ = Clock::now() + kIdleTimeout;
    } else {
      deadline_ = Clock::now() + kReadTimeout;
    }
    if (!buffer_.empty()) return parse();
    wait_to_read();
  }

 private:
  enum class State { Reading, Answering, Draining, Closed };

  std::shared_ptr<Connection> own() { return std::static_pointer_cast<Connection>(shared_from_this()); }

  void wait_to_read() {
    socket_.async_wait(tcp::socket::wait_read, [self = own()](error_code) {
      // Posts twice, so that an earlier signal is handled first: Asio needs two iterations of its loop to deliver one.
      asio::post(self->server_.io, [self] { asio::post(self->server_.io, [self] { self->read_and_parse(); }); });
    });
  }

  void read_and_parse() {
    if (state_ != State::Reading) return;
    if (!read_some(kReadSize)) return close();
    parse();
  }

  bool read_some(size_t n) {
    error_code error;
    n = socket_.read_some(asio::buffer(server_.bytes.data(), std::min(n, kReadSize)), error);
    if (error == asio::error::would_block) return true;
    if (error || n == 0) return false;
    buffer_.append(server_.bytes.data(), n);
    return true;
  }

  void parse() {
    while (!buffer_.empty()) {
      if (!reader_->has_begun()) deadline_ = Clock::now() + kReadTimeout;
      const bool had_head = reader_->has_head();
      try {
        buffer_.erase(0, reader_->read(buffer_));
      } catch (const RequestError& error) {
        return refuse(error.status(), error.what());
      }
      if (buffer_.empty()) buffer_.shrink_to_fit();
      if (!count_body(reader_->body().empty() ? 0 : reader_->body().capacity())) {
        headers_ += "Retry-After: 1\r\n";
        return refuse(503, fmt::format("request bodies need more than --body-memory, {} bytes; retry",
                                       server_.options.max_body_bytes));
      }
      if (!had_head && reader_->has_head() && !admit()) return;
      if (reader_->is_complete()) return skips_body_ ? read_request() : answer();
    }
    wait_to_read();
  }

  // Lets the handler check the request before its body is read. Returns false if the body must not be read now, because
  // the handler answers without it, or because "100 Continue" is being sent first.
  bool admit() {
    RequestHead& head = reader_->head();
    request_ = std::move(static_cast<HttpRequest&>(head));
    const bool can_skip =
        reader_->is_complete() || (!head.chunked && !head.expects_continue && head.content_length <= kMaxSkipped);
    const Clock::time_point deadline = deadline_;
    begin_answer(head.version, head.keep_alive && can_skip, request_.head_only);
    skips_body_ = !server_.handlers.admit(request_, own());
    if (skips_body_) {
      reader_->skip_body();
      if (state_ == State::Answering) watch();
      return false;
    }
    state_ = State::Reading;
    deadline_ = deadline;
    if (!head.expects_continue || reader_->is_complete()) return true;
    in_flight_ = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(socket_, asio::buffer(in_flight_), [self = own()](error_code failed, size_t) {
      if (self->state_ != State::Reading) return;
      if (failed) return self->close();
      self->buffer_.empty() ? self->wait_to_read() : self->parse();
    });
    return false;
  }

  void answer() {
    const RequestHead& head = reader_->head();
    begin_answer(head.version, head.keep_alive, request_.head_only);
    request_.body = std::move(reader_->body());
    const auto release = [&sum = server_.n_body_bytes, n = std::exchange(n_counted_, 0)](void*) { sum -= n; };
    request_.body_memory = std::shared_ptr<void>(nullptr, release);
    watch();
    server_.handlers.handle(std::exchange(request_, {}), own());
  }

  void begin_answer(unsigned version, bool keep_alive, bool head_only) {
    reopen();
    state_ = State::Answering;
    version_ = version;
    keep_alive_ = keep_alive;
    head_only_ = head_only;
    chunked_ = false;
    ended_ = false;
    deadline_ = Clock::time_point::max();  // the handler limits the time of an answer
  }

  // Answers a rejected request with an error, then closes the connection.
  void refuse(int status, const std::string& why) {
    if (skips_body_) return drain();  // the request was answered before its body
    begin_answer(11, false, false);
    reader_.reset();
    count_body(0);
    send(status, "application/json", server_.handlers.refuse(status, why));
  }

  // Sets the bytes that this connection adds to n_body_bytes. Returns false if the sum then exceeds max_body_bytes.
  bool count_body(size_t n) {
    server_.n_body_bytes += n - n_counted_;
    n_counted_ = n;
    return n == 0 || server_.n_body_bytes <= server_.options.max_body_bytes;
  }

  void put_head(int status, std::string_view content_type, std::optional<size_t> length) override {
    chunked_ = !length && version_ >= 11;
    keep_alive_ = keep_alive_ && (length || chunked_) && !server_.closing();
    const auto reason = http::obsolete_reason(static_cast<http::status>(status));
    out_ += fmt::format("HTTP/1.1 {} {}\r\n", status, std::string_view(reason.data(), reason.size()));
    if (!content_type.empty()) out_ += fmt::format("Content-Type: {}\r\n", content_type);
    out_ += headers_;
    if (!keep_alive_) out_ += "Connection: close\r\n";
    if (keep_alive_ && version_ < 11) out_ += "Connection: keep-alive\r\n";
    if (chunked_) out_ += "Transfer-Encoding: chunked\r\n";
    if (length && status != 204) out_ += fmt::format("Content-Length: {}\r\n", *length);
    out_ += "\r\n";
  }

  void put(std::string_view piece) override {
    if (!head_only_ && !piece.empty()) {
      out_ += chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : std::string(piece);
    }
    flush();
  }

  void finish() override {
    if (chunked_ && !head_only_) out_ += "0\r\n\r\n";
    ended_ = true;
    flush();
  }

  void flush() {
    if (writing_ || state_ != State::Answering) return;
    if (out_.empty()) {
      if (!ended_) return;
      in_flight_ = {};
      return keep_alive_ ? read_request() : drain();
    }
    writing_ = true;
    in_flight_ = std::exchange(out_, {});
    n_written_ = 0;
    write_some();
  }

  void write_some() {
    deadline_ = Clock::now() + server_.options.write_timeout;
    const auto rest = asio::buffer(in_flight_) + n_written_;
    socket_.async_write_some(rest, [self = own()](error_code error, size_t n) {
      if (self->state_ != State::Answering) return;
      if (error) return self->lose();
      const size_t before = self->unsent();
      self->n_written_ += n;
      if (before >= kReplyWindow && self->unsent() < kReplyWindow) {
        self->pump();
        if (self->state_ != State::Answering) return;
      }
      if (self->n_written_ < self->in_flight_.size()) return self->write_some();
      self->deadline_ = Clock::time_point::max();
      self->writing_ = false;
      self->flush();
    });
  }

  // Discards further input before closing: otherwise the connection is reset, and the client may lose the answer.
  void drain() {
    state_ = State::Draining;
    deadline_ = Clock::now() + kLinger;
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    discard();
  }
  void discard() {
    buffer_.clear();
    buffer_.shrink_to_fit();
    socket_.async_wait(tcp::socket::wait_read, [self = own()](error_code) {
      if (self->state_ != State::Draining) return;
      if (!self->read_some(kReadSize)) return self->close();
      self->discard();
    });
  }

  // Detects a disconnect during an answer. Bytes that arrive meanwhile are further requests, and are buffered.
  void watch() {
    if (watching_ || buffer_.size() >= kMaxPipelined) return;
    watching_ = true;
    socket_.async_wait(tcp::socket::wait_read, [self = own()](error_code error) {
      self->watching_ = false;
      if (self->state_ != State::Answering) return;
      if (error) return self->lose();
      if (!self->read_some(kMaxPipelined - self->buffer_.size())) return self->lose();
      self->watch();
    });
  }

  void close() override {
    if (state_ == State::Closed) return;
    state_ = State::Closed;
    count_body(0);
    error_code ignored;
    socket_.close(ignored);
    const auto self = own();
    server_.open.erase(self);
    server_.end_if_done();
  }

  Connections& server_;
  tcp::socket socket_;
  std::string buffer_;  // bytes that were read but not parsed yet
  std::optional<RequestReader> reader_;
  HttpRequest request_;      // the request being read, without its body
  size_t n_counted_ = 0;     // bytes of this connection's request body in n_body_bytes
  bool skips_body_ = false;  // the request was answered before its body was read
  State state_ = State::Reading;
  Clock::time_point deadline_ = Clock::time_point::max();
  unsigned version_ = 11;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool chunked_ = false;
  bool ended_ = false;    // the whole answer is in out_
  bool writing_ = false;  // in_flight_ is being written
  bool watching_ = false;
  std::string headers_;
  std::string out_;  // output to write after in_flight_
  std::string in_flight_;
  size_t n_written_ = 0;
};

void Connections::accept() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    if (closing()) return;
    if (error) {  // for example, no file descriptor is free
      retry.expires_after(std::chrono::milliseconds(100));
      retry.async_wait([this](error_code) {
        if (!closing()) accept();
      });
      return;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.non_blocking(true, ignored);
    // Limits the kernel's send buffer, which could otherwise grow to megabytes for a client that doesn't read.
    socket.set_option(tcp::socket::send_buffer_size(static_cast<int>(kSendBuffer)), ignored);
    if (open.size() < kMaxConnections) {
      const auto connection = std::make_shared<Connection>(*this, std::move(socket));
      open.insert(connection);
      connection->read_request();
    } else {
      const std::string body =
          handlers.refuse(503, fmt::format("{} connections are open, the maximum; retry", open.size()));
      const std::string answer = fmt::format(
          "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: "
          "1\r\nContent-Length: {}\r\n\r\n{}",
          body.size(), body);
      socket.write_some(asio::buffer(answer), ignored);
    }
    accept();
  });
}

void Connections::tick() {
  ticker.expires_after(std::chrono::milliseconds(100));
  ticker.async_wait([this](error_code error) {
    if (error) return;
    if (on_tick && !closing()) on_tick();
    const auto now = Clock::now();
    const bool is_over = closing() && now > closed_at + kLinger;
    for (const auto& connection : std::vector(open.begin(), open.end())) {
      is_over ? connection->lose() : connection->check_deadline(now);
    }
    if (!closing() || !open.empty()) tick();  // otherwise the timer stops, so that run() returns
  });
}

void Connections::wait_for_signal(std::function<void()> work) {
  signals.async_wait([this, work = std::move(work)](error_code error, int) {
    if (error) return;
    work();
    if (!closing() || !open.empty()) wait_for_signal(work);
  });
}

// After close(), cancels all waits once the last connection has ended, so that run() returns.
void Connections::end_if_done() {
  if (!closing() || !open.empty()) return;
  signals.cancel();
  retry.cancel();
  ticker.cancel();
}

HttpServer::HttpServer(const HttpOptions& options, Handlers handlers)
    : connections_(std::make_unique<Connections>(options, std::move(handlers))) {
  // Rejects an empty host name, which the resolver would treat as all addresses.
  core::require(!options.host.empty(), "can't listen on an empty --host; choose an address, or 0.0.0.0 for all");
  try {
    tcp::resolver resolver(connections_->io);
    const tcp::endpoint endpoint =
        *resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive).begin();
    connections_->acceptor.open(endpoint.protocol());
    connections_->acceptor.set_option(tcp::acceptor::reuse_address(true));
    connections_->acceptor.bind(endpoint);
    connections_->acceptor.listen(4096);
  } catch (const boost::system::system_error& error) {
    core::fail("can't listen on {} port {}: {}; choose another --host or --port (0: any free port)",
               core::printable(options.host), options.port, error.code().message());
  }
  connections_->accept();
  connections_->tick();
}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return connections_->acceptor.local_endpoint().port(); }

std::string HttpServer::address() const {
  const auto address = connections_->acceptor.local_endpoint().address();
  return address.is_v6() ? fmt::format("[{}]", address.to_string()) : address.to_string();
}

void HttpServer::run() { connections_->io.run(); }

void HttpServer::close() {
  error_code ignored;
  connections_->acceptor.close(ignored);
  connections_->closed_at = Clock::now();
  for (const auto& connection : std::vector(connections_->open.begin(), connections_->open.end()))
    connection->close_if_idle();
  connections_->end_if_done();
}

void HttpServer::post(std::function<void()> work) { asio::post(connections_->io, std::move(work)); }

void HttpServer::on_tick(std::function<void()> work) { connections_->on_tick = std::move(work); }

void HttpServer::on_signal(std::function<void()> work) {
  connections_->signals.add(SIGINT);
  connections_->signals.add(SIGTERM);
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) connections_->signals.add(SIGHUP);
  connections_->wait_for_signal(std::move(work));
}

}  // namespace folio::infer::server
