// Tests infer/server/http.h: bodies count in the memory limit until they are parsed.
#include "infer/server/http.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace folio::infer::server {
namespace {

// Sends a request with a body of n bytes on a connection of its own, and returns the status of the response.
std::string status_of(uint16_t port, size_t n) {
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  const std::string request = fmt::format("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{}", n, std::string(n, 'x'));
  std::string response(12, ' ');  // HTTP/1.1 200
  EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_EQ(::send(client, request.data(), request.size(), 0), std::ssize(request));
  EXPECT_EQ(::recv(client, response.data(), response.size(), MSG_WAITALL), std::ssize(response));
  ::close(client);
  return response.substr(9);
}

TEST(HttpServer, LimitsTheMemoryOfBodiesUntilTheyAreParsed) {
  std::vector<HttpRequest> waiting;  // requests whose bodies aren't parsed yet
  HttpServer server({.port = 0, .max_body_bytes = 320},
                    {.admit = [](const HttpRequest&, const std::shared_ptr<HttpReply>&) { return true; },
                     .handle =
                         [&](HttpRequest request, const std::shared_ptr<HttpReply>& reply) {
                           waiting.push_back(std::move(request));
                           reply->send(200, "", "");
                         },
                     .refuse = [](int, std::string_view) { return std::string(); }});
  std::thread thread([&] { server.run(); });
  EXPECT_EQ(status_of(server.port(), 200), "200");
  EXPECT_EQ(status_of(server.port(), 200), "503");
  EXPECT_EQ(status_of(server.port(), 100), "200");
  server.post([&] { waiting.clear(); });
  EXPECT_EQ(status_of(server.port(), 300), "200");
  server.post([&] {
    waiting.clear();
    server.close();
  });
  thread.join();
}

}  // namespace
}  // namespace folio::infer::server
