// All of Boost.Beast that there is here, in one file on purpose: its headers are compiled once, and nobody else sees them.
#include "infer/server/http.h"

#include <fmt/format.h>

#include <utility>  // Boost 1.74 forgets it
// Boost
#include <boost/asio.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"

namespace folio::infer::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxPipelined = size_t{64} << 10U;  // bytes of further requests that are read during an answer
constexpr size_t kSendBuffer = size_t{64} << 10U;
constexpr std::chrono::seconds kLinger{2};  // for the client to read the last answer

std::string_view text_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

class Session;

struct Connections {
  Connections(const HttpOptions& o, HttpServer::Handler h, HttpServer::Refusal r)
      : options(o), handler(std::move(h)), refusal(std::move(r)) {}

  struct Timer {
    asio::steady_timer timer;
    std::chrono::milliseconds interval;
    std::function<void()> work;
  };

  void accept();
  void sweep();
  void tick(Timer& timer);
  void wait_for_signal(std::function<void()> work);
  void forget(const std::shared_ptr<Session>& session);
  void end_if_done();
  [[nodiscard]] bool closing() const { return !acceptor.is_open(); }

  HttpOptions options;
  HttpServer::Handler handler;
  HttpServer::Refusal refusal;
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer retry{io};
  asio::steady_timer sweeper{io};
  asio::signal_set signals{io};
  Clock::time_point closed_at;
  std::deque<Timer> timers;  ///< a deque: they stay where they are
  std::set<std::shared_ptr<Session>> sessions;
};

// A connection: reads a request, answers it, reads the next. While it answers, it watches whether the client is there.
class Session final : public HttpReply, public std::enable_shared_from_this<Session> {
 public:
  Session(Connections& server, tcp::socket socket) : server_(server), socket_(std::move(socket)) {}

  void start() { read_request(); }

  void add_header(std::string_view name, std::string_view value) override {
    headers_ += fmt::format("{}: {}\r\n", name, value);
  }

  void send(int status, std::string_view content_type, std::string_view body) override {
    if (state_ != State::Answering) return;
    write_head(status, content_type);
    out_ += status == 204 ? "\r\n" : fmt::format("Content-Length: {}\r\n\r\n", body.size());
    if (!head_only_) out_ += body;
    finish();
  }

  void begin(int status, std::string_view content_type) override {
    if (state_ != State::Answering) return;
    chunked_ = version_ >= 11;
    if (!chunked_) keep_alive_ = false;
    write_head(status, content_type);
    out_ += chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
    flush();
  }

  void write(std::string_view piece) override {
    if (state_ != State::Answering || piece.empty() || head_only_) return;
    out_ += chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : std::string(piece);
    flush();
  }

  void end() override {
    if (state_ != State::Answering) return;
    if (chunked_ && !head_only_) out_ += "0\r\n\r\n";
    finish();
  }

  void abort() override {
    if (state_ != State::Answering) return;
    lost_ = {};
    lose();
  }

  [[nodiscard]] size_t unsent() const override { return out_.size() + (writing_ ? in_flight_.size() - n_written_ : 0); }

  void on_writable(std::function<void()> writable) override {
    if (state_ == State::Answering && !ended_) writable_ = std::move(writable);
  }

  void on_lost(std::function<void()> lost) override {
    if (state_ == State::Answering) {
      lost_ = std::move(lost);
    } else {
      lost();
    }
  }

  void check_deadline(Clock::time_point now) {
    if (now < deadline_) return;
    const auto self = shared_from_this();
    lose();
  }

  // For an end of the server: a request that is not there yet won't come.
  void close_if_idle() {
    const auto self = shared_from_this();
    if (state_ == State::Reading) close();
  }

  void lose() {
    const auto lost = std::exchange(lost_, {});
    writable_ = {};
    close();
    if (lost) lost();
  }

 private:
  enum class State { Reading, Answering, Draining, Closed };

  void read_request() {
    if (server_.closing()) return drain();
    state_ = State::Reading;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(server_.options.max_header));
    parser_->body_limit(server_.options.max_body);
    deadline_ = Clock::now() + server_.options.idle_timeout;
    if (buffer_.size() > 0) return read_header();
    buffer_.shrink_to_fit();
    // A first byte, so that the time that a request takes is not that which the client thinks.
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code) {
      if (self->state_ == State::Reading) self->read_header();
    });
  }

  void read_header() {
    deadline_ = Clock::now() + server_.options.read_timeout;
    http::async_read_header(socket_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
      if (self->state_ != State::Reading) return;
      if (error) return self->refuse(error);
      if (self->parser_->get()[http::field::expect] != "100-continue") return self->read_body();
      self->in_flight_ = "HTTP/1.1 100 Continue\r\n\r\n";
      asio::async_write(self->socket_, asio::buffer(self->in_flight_), [self](error_code failed, size_t) {
        if (failed) return self->lose();
        if (self->state_ == State::Reading) self->read_body();
      });
    });
  }

  void read_body() {
    http::async_read(socket_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
      if (self->state_ != State::Reading) return;
      if (error) return self->refuse(error);
      self->answer();
    });
  }

  void answer() {
    auto message = parser_->release();
    parser_.reset();
    begin_answer(message.version(), message.keep_alive(), message.method() == http::verb::head);
    const std::string_view target = text_of(message.target());
    HttpRequest request{.method = head_only_ ? "GET" : std::string(text_of(message.method_string())),
                        .head_only = head_only_,
                        .path = std::string(target.substr(0, target.find('?'))),
                        .body = std::move(message.body()),
                        .host = std::string(text_of(message[http::field::host])),
                        .origin = std::string(text_of(message[http::field::origin])),
                        .content_type = std::string(text_of(message[http::field::content_type])),
                        .authorization = std::string(text_of(message[http::field::authorization]))};
    watch();
    server_.handler(std::move(request), shared_from_this());
  }

  void begin_answer(unsigned version, bool keep_alive, bool head_only) {
    state_ = State::Answering;
    version_ = version;
    keep_alive_ = keep_alive;
    head_only_ = head_only;
    chunked_ = false;
    ended_ = false;
    headers_.clear();
    deadline_ = Clock::time_point::max();  // how long an answer may take is for who gives it
  }

  // What is no request gets one answer, and the connection ends.
  void refuse(error_code error) {
    const bool http_error = error.category() == make_error_code(http::error::end_of_stream).category();
    if (!http_error || error == http::error::end_of_stream || error == http::error::partial_message) return close();
    const bool large = error == http::error::body_limit;
    const int status = large ? 413 : error == http::error::header_limit ? 431 : 400;
    const std::string why = large ? fmt::format("the body is larger than {} bytes", server_.options.max_body)
                            : status == 431
                                ? fmt::format("the header is larger than {} bytes", server_.options.max_header)
                                : fmt::format("this is no HTTP request: {}", error.message());
    begin_answer(11, false, false);
    send(status, "application/json", server_.refusal(status, why));
  }

  void write_head(int status, std::string_view content_type) {
    keep_alive_ = keep_alive_ && !server_.closing();
    out_ +=
        fmt::format("HTTP/1.1 {} {}\r\n", status, text_of(http::obsolete_reason(static_cast<http::status>(status))));
    if (!content_type.empty()) out_ += fmt::format("Content-Type: {}\r\n", content_type);
    out_ += headers_;
    if (!keep_alive_) out_ += "Connection: close\r\n";
    if (keep_alive_ && version_ < 11) out_ += "Connection: keep-alive\r\n";
  }

  void finish() {
    ended_ = true;
    writable_ = {};
    flush();
  }

  void flush() {
    if (writing_ || state_ != State::Answering) return;
    if (out_.empty()) {
      if (ended_) next();
      return;
    }
    writing_ = true;
    in_flight_ = std::exchange(out_, {});
    n_written_ = 0;
    write_some();
  }

  void write_some() {
    deadline_ = server_.options.now() + server_.options.write_timeout;
    const auto rest = asio::buffer(in_flight_) + n_written_;
    socket_.async_write_some(rest, [self = shared_from_this()](error_code error, size_t n) {
      if (self->state_ != State::Answering) return;
      if (error) return self->lose();
      const size_t before = self->unsent();
      self->n_written_ += n;
      if (before >= kReplyWindow && self->unsent() < kReplyWindow) {
        if (const auto writable = self->writable_) writable();
        if (self->state_ != State::Answering) return;
      }
      if (self->n_written_ < self->in_flight_.size()) return self->write_some();
      self->deadline_ = Clock::time_point::max();
      self->writing_ = false;
      self->flush();
    });
  }

  // After an answer.
  void next() {
    lost_ = {};
    in_flight_ = {};
    if (keep_alive_) return read_request();
    drain();
  }

  // The client sees the answer only if the connection is not reset, which what it still sends would do.
  void drain() {
    state_ = State::Draining;
    deadline_ = Clock::now() + kLinger;
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    buffer_.clear();
    discard();
  }
  void discard() {
    socket_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code error, size_t) {
      if (self->state_ != State::Draining) return;
      if (error) return self->close();
      self->discard();
    });
  }

  // Sees the end of the connection during an answer. What comes before it are further requests.
  void watch() {
    if (watching_ || buffer_.size() >= kMaxPipelined) return;
    watching_ = true;
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
      self->watching_ = false;
      if (self->state_ != State::Answering) return;
      if (error) return self->lose();
      if (!self->read_ahead()) return self->lose();
      if (self->buffer_.size() < kMaxPipelined) self->watch();
    });
  }
  bool read_ahead() {
    error_code error;
    const size_t n = std::min(socket_.available(error), kMaxPipelined);
    if (error || n == 0) return false;
    buffer_.commit(socket_.read_some(buffer_.prepare(n), error));
    return !error;
  }

  void close() {
    if (state_ == State::Closed) return;
    state_ = State::Closed;
    error_code ignored;
    socket_.close(ignored);
    server_.forget(shared_from_this());
  }

  Connections& server_;
  tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  State state_ = State::Reading;
  Clock::time_point deadline_ = Clock::time_point::max();
  unsigned version_ = 11;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool chunked_ = false;
  bool ended_ = false;    // the answer is whole in out_
  bool writing_ = false;  // in_flight_ is
  bool watching_ = false;
  std::string headers_;
  std::string out_;  // to be written after in_flight_
  std::string in_flight_;
  size_t n_written_ = 0;
  std::function<void()> lost_;
  std::function<void()> writable_;
};

void Connections::accept() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    if (closing()) return;
    if (error) {  // no descriptors are left, for example: others will end
      retry.expires_after(std::chrono::milliseconds(100));
      retry.async_wait([this](error_code) {
        if (!closing()) accept();
      });
      return;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    // What the system keeps for a client that doesn't read; else it would take megabytes.
    socket.set_option(tcp::socket::send_buffer_size(static_cast<int>(kSendBuffer)), ignored);
    if (sessions.size() < options.max_connections) {
      const auto session = std::make_shared<Session>(*this, std::move(socket));
      sessions.insert(session);
      session->start();
    } else {
      const std::string body = refusal(503, fmt::format("there are {} connections already", sessions.size()));
      const std::string answer = fmt::format(
          "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: "
          "1\r\nContent-Length: {}\r\n\r\n{}",
          body.size(), body);
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(answer), ignored);
    }
    accept();
  });
}

// Deadlines are looked at once a second, for all connections: nothing depends on the moment.
void Connections::sweep() {
  sweeper.expires_after(std::chrono::seconds(1));
  sweeper.async_wait([this](error_code error) {
    if (error) return;
    const auto now = options.now();
    if (closing() && Clock::now() > closed_at + kLinger) {
      for (const auto& session : std::vector(sessions.begin(), sessions.end())) session->lose();
    }
    for (const auto& session : std::vector(sessions.begin(), sessions.end())) session->check_deadline(now);
    if (!closing() || !sessions.empty()) sweep();  // else run() would never return
  });
}

void Connections::tick(Timer& timer) {
  timer.timer.expires_after(timer.interval);
  timer.timer.async_wait([this, &timer](error_code error) {
    if (error || closing()) return;
    timer.work();
    tick(timer);
  });
}

void Connections::wait_for_signal(std::function<void()> work) {
  signals.async_wait([this, work = std::move(work)](error_code error, int) {
    if (error) return;
    work();
    if (!closing() || !sessions.empty()) wait_for_signal(work);
  });
}

void Connections::forget(const std::shared_ptr<Session>& session) {
  sessions.erase(session);
  end_if_done();
}

// run() returns when nobody waits for anything.
void Connections::end_if_done() {
  if (!closing() || !sessions.empty()) return;
  signals.cancel();
  sweeper.cancel();
  retry.cancel();
  for (Timer& timer : timers) timer.timer.cancel();
}

HttpServer::HttpServer(const HttpOptions& options, Handler handler, Refusal refusal)
    : connections_(std::make_unique<Connections>(options, std::move(handler), std::move(refusal))) {
  try {
    tcp::resolver resolver(connections_->io);
    const tcp::endpoint endpoint =
        *resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive).begin();
    connections_->acceptor.open(endpoint.protocol());
    connections_->acceptor.set_option(tcp::acceptor::reuse_address(true));
    connections_->acceptor.bind(endpoint);
    connections_->acceptor.listen(4096);
  } catch (const boost::system::system_error& error) {
    core::fail("can't listen on {} port {}: {}; choose another --host or --port (0: a free one)",
               core::printable(options.host), options.port, error.code().message());
  }
  connections_->accept();
  connections_->sweep();
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
  for (const auto& session : std::vector(connections_->sessions.begin(), connections_->sessions.end()))
    session->close_if_idle();
  connections_->end_if_done();
}

void HttpServer::post(std::function<void()> work) { asio::post(connections_->io, std::move(work)); }

void HttpServer::every(std::chrono::milliseconds interval, std::function<void()> work) {
  connections_->timers.push_back(
      {.timer = asio::steady_timer(connections_->io), .interval = interval, .work = std::move(work)});
  connections_->tick(connections_->timers.back());
}

void HttpServer::on_signal(std::function<void()> work) {
  connections_->signals.add(SIGINT);
  connections_->signals.add(SIGTERM);
  connections_->wait_for_signal(std::move(work));
}

}  // namespace folio::infer::server
