// Tests infer/server/http.h and http_reply.h: a response is produced only as fast as its client reads, and only clients
// that stop reading are dropped, after the timeout. The test controls the server's clock.
#include "infer/server/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

namespace folio::infer::server {
namespace {

using namespace std::chrono_literals;
constexpr size_t kPieces = 1024;
constexpr size_t kPieceBytes = 8192;  // kPieces pieces have 8 MB, more than the socket buffers can store

std::string piece(size_t i) { return std::string(kPieceBytes, static_cast<char>('a' + i % 26)); }

// A client that sends a request and reads the response only when asked to.
class Client {
 public:
  Client(uint16_t port, const std::string& path) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int small = 4096;
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    EXPECT_EQ(send(socket_, request.data(), request.size(), 0), std::ssize(request));
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Reads until the connection ends. Returns the body, or "" if the headers are incomplete.
  std::string read_all() {
    std::string all;
    std::string buffer(65536, ' ');
    for (ssize_t n = 0; (n = recv(socket_, buffer.data(), buffer.size(), 0)) > 0;) {
      all.append(buffer, 0, static_cast<size_t>(n));
    }
    const size_t end_of_head = all.find("\r\n\r\n");
    return end_of_head == all.npos ? "" : all.substr(end_of_head + 4);
  }

 private:
  int socket_;
};

TEST(Http, WaitsForSlowClientsAndDropsStalledOnes) {
  std::atomic<int64_t> hours = 0;
  std::atomic<size_t> n_made = 0;  // bytes produced for the response to /silent
  std::promise<void> lost;
  std::promise<std::shared_ptr<HttpReply>> silent;
  HttpOptions options{.port = 0};
  options.now = [&] { return std::chrono::steady_clock::now() + std::chrono::hours(hours); };
  HttpServer server(options, {.admit =
                                  [&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
                                    const bool is_silent = request.path == "/silent";
                                    reply->on_lost([&, is_silent] {
                                      if (is_silent) lost.set_value();
                                    });
                                    reply->send(200, "text/plain",
                                                [&, is_silent, i = size_t{0}](std::string& text) mutable {
                                                  text += piece(i);
                                                  if (is_silent) n_made += kPieceBytes;
                                                  return ++i < kPieces;
                                                });
                                    if (is_silent) silent.set_value(reply);
                                    return false;
                                  },
                              .handle = [](const HttpRequest&, const std::shared_ptr<HttpReply>&) {},
                              .refuse = [](int, std::string_view) { return "{}"; }});
  std::thread thread([&] { server.run(); });
  {
    Client does_not_read(server.port(), "/silent");
    const auto reply = silent.get_future().get();
    const auto unsent = [&] {
      std::promise<size_t> n;
      server.post([&] { n.set_value(reply->unsent()); });
      return n.get_future().get();
    };
    while (unsent() < kReplyWindow) std::this_thread::yield();

    std::string expected;
    for (size_t i = 0; i < kPieces; ++i) expected += piece(i);
    EXPECT_TRUE(Client(server.port(), "/reads").read_all() == expected);
    EXPECT_LT(unsent(), 2 * kReplyWindow);
    EXPECT_LT(n_made, kPieces * kPieceBytes / 2) << "it is not made before it can be sent";

    auto is_lost = lost.get_future();
    EXPECT_NE(is_lost.wait_for(0s), std::future_status::ready);
    hours = 1;
    ASSERT_EQ(is_lost.wait_for(60s), std::future_status::ready);
    EXPECT_LT(does_not_read.read_all().size(), expected.size());
  }
  EXPECT_TRUE(Client(server.port(), "/reads").read_all().size() == kPieces * kPieceBytes);
  server.post([&] { server.close(); });
  thread.join();
}

}  // namespace
}  // namespace folio::infer::server
