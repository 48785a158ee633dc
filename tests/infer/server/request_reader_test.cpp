// Tests infer/server/request_reader.h: how a request is read doesn't depend on how its bytes are split, its end is
// unambiguous, and its size is limited.
#include "infer/server/request_reader.h"

#include <gtest/gtest.h>

#include <optional>

namespace folio::infer::server {
namespace {

constexpr RequestLimits kLimits{.max_header = 512, .max_body = 4096};
const std::string kPost = "POST /a HTTP/1.1\r\nHost: h\r\n";

// Passes `bytes` to the reader, at most `size` at a time. Returns the status of its error, or 0.
int status_of(std::string_view bytes, size_t size, RequestReader& reader) {
  try {
    while (!bytes.empty() && !reader.is_complete()) {
      const std::string_view piece = bytes.substr(0, size);
      const size_t used = reader.read(piece);
      EXPECT_GT(used, 0U);
      bytes.remove_prefix(used);
    }
  } catch (const RequestError& error) {
    EXPECT_EQ(std::string(error.what()).find_first_of("\r\n"), std::string::npos) << error.what();
    return error.status();
  }
  return 0;
}
int status_of(std::string_view bytes) {
  RequestReader whole(kLimits);
  RequestReader bytewise(kLimits);
  const int status = status_of(bytes, bytes.size(), whole);
  EXPECT_EQ(status_of(bytes, 1, bytewise), status) << bytes;
  if (status == 0) {
    EXPECT_EQ(whole.is_complete(), bytewise.is_complete()) << bytes;
    EXPECT_EQ(whole.body(), bytewise.body()) << bytes;
  }
  return status;
}
std::optional<std::string> body_of(const std::string& bytes) {
  EXPECT_EQ(status_of(bytes), 0) << bytes;
  RequestReader reader(kLimits);
  static_cast<void>(status_of(bytes, bytes.size(), reader));
  return reader.is_complete() ? std::optional(reader.body()) : std::nullopt;
}

TEST(RequestReader, ReadsSizedAndChunkedBodies) {
  EXPECT_EQ(body_of("GET / HTTP/1.1\r\n\r\n"), "");
  EXPECT_EQ(body_of("\r\n\r\nGET / HTTP/1.0\r\nHost:\r\n\r\n"), "");
  EXPECT_EQ(body_of(kPost + "content-length:3 \r\n\r\nabc"), "abc");
  EXPECT_EQ(body_of(kPost + "Content-Length: 4\r\n\r\nabc"), std::nullopt);
  EXPECT_EQ(body_of(kPost + "Transfer-Encoding: CHUNKED\r\n\r\n3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n"),
            "abc0123456789");
  EXPECT_EQ(body_of(kPost + "Transfer-Encoding: chunked\r\n\r\n0;x\r\nContent-Length: 7\r\nX: y\r\n\r\n"), "");
}

TEST(RequestReader, StopsBeforeTheNextRequest) {
  const std::string both = kPost + "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n";
  RequestReader reader(kLimits);
  const size_t head = reader.read(both);
  EXPECT_TRUE(reader.has_head() && !reader.is_complete());
  EXPECT_EQ(reader.head().content_length, 3U);
  EXPECT_EQ(head + reader.read(std::string_view(both).substr(head)), both.find("GET"));
  EXPECT_TRUE(reader.is_complete());
}

TEST(RequestReader, ReadsFieldsAndConnectionOptions) {
  RequestReader reader(kLimits);
  const std::string text =
      "GET /p?q HTTP/1.1\r\nhOST: \t h:1 \r\nConnection: te\r\nConnection: a , Close\r\nORIGIN:o\r\n\r\n";
  EXPECT_EQ(reader.read(text), text.size());
  EXPECT_EQ(reader.head().path, "/p");
  EXPECT_EQ(reader.head().host, "h:1");
  EXPECT_EQ(reader.head().origin, "o");
  EXPECT_FALSE(reader.head().keep_alive);
}

TEST(RequestReader, RejectsAmbiguousFraming) {
  for (const char* fields : {"Transfer-Encoding: gzip\r\n",
                             "Transfer-Encoding: identity\r\n",
                             "Transfer-Encoding: gzip, chunked\r\n",
                             "Transfer-Encoding: chunked, gzip\r\n",
                             "Transfer-Encoding: chunked, chunked\r\n",
                             "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                             "Transfer-Encoding: xchunked\r\n",
                             "Transfer-Encoding: chunked;q=1\r\n",
                             "Transfer-Encoding:\r\n",
                             "Transfer-Encoding:\x0b chunked\r\n",
                             "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                             "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                             "Content-Length: 3\r\nContent-Length: 3\r\n",
                             "Content-Length: 3\r\nContent-Length: 4\r\n",
                             "Content-Length: 3, 3\r\n",
                             "Content-Length: +3\r\n",
                             "Content-Length: -3\r\n",
                             "Content-Length: 0x3\r\n",
                             "Content-Length: 3 3\r\n",
                             "Content-Length:\r\n",
                             "Content-Length : 3\r\n",
                             "Content Length: 3\r\n",
                             " Content-Length: 3\r\n",
                             "X: a\r\n b\r\n",
                             "X: a\r\n\tb\r\n",
                             "X\r\n",
                             ": a\r\n",
                             "X: a\n",
                             "X: a\r\r\n",
                             "X: a\rb\r\n",
                             "X: \x01\r\n",
                             "X: \x7f\r\n",
                             "H\xc3\xa9: a\r\n",
                             "Host: h\r\n",
                             "Authorization: a\r\nAuthorization: b\r\n",
                             "Content-Type: a\r\nContent-Type: b\r\n",
                             "Origin: a\r\nOrigin: b\r\n"}) {
    EXPECT_EQ(status_of(kPost + fields + "\r\n0\r\n\r\n"), 400) << fields;
  }
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(status_of(kPost + std::string("X: a\0b\r\n", 8) + "\r\n"), 400);
  EXPECT_EQ(status_of(kPost + "Content-Length: 99999999999999999999\r\n\r\n"), 413);
  EXPECT_EQ(status_of(kPost + "Content-Length: 4097\r\n\r\n"), 413);
  EXPECT_EQ(status_of(kPost + "Expect: tea\r\n\r\n"), 417);
  for (const char* line :
       {"GET /", "GET / HTTP/2.0", "GET / HTTP/1.2", "GET / http/1.1", "GET  / HTTP/1.1", "GET / HTTP/1.1 ",
        " GET / HTTP/1.1", "GET /a b HTTP/1.1", "G(T / HTTP/1.1", "GET /\x80 HTTP/1.1", "\x16\x03\x01"}) {
    EXPECT_EQ(status_of(std::string(line) + "\r\n\r\n"), 400) << line;
  }
}

TEST(RequestReader, RejectsMalformedChunks) {
  const std::string head = kPost + "Transfer-Encoding: chunked\r\n\r\n";
  for (const char* chunks :
       {"xyz\r\n", "\r\n", "-1\r\n", "+1\r\na\r\n", "0x1\r\na\r\n", "1 \r\na\r\n", " 1\r\na\r\n", "1\na\r\n",
        "1\r\nab\r\n", "1\r\na\n", "1\r\na0\r\n\r\n", "1;\ra\r\na\r\n", "1;a\nb\r\n", "00000000000000001\r\na\r\n",
        "0\r\nX : y\r\n\r\n", "0\r\n X: y\r\n\r\n", "0\r\nX: y\n\r\n"}) {
    EXPECT_EQ(status_of(head + chunks), 400) << chunks;
  }
  for (const char* size : {"1001", "ffffffffffffffff", "8000000000000000"}) {
    EXPECT_EQ(status_of(head + "800\r\n" + std::string(2048, 'a') + "\r\n" + size + "\r\n"), 413) << size;
  }
}

TEST(RequestReader, LimitsEveryPartOfARequest) {
  const std::string chunked = kPost + "Transfer-Encoding: chunked\r\n\r\n";
  const std::string chunk_with_extension = "1;" + std::string(30, 'x') + "\r\na\r\n";
  struct Case {
    std::string begin, repeated;
    int status;
  };
  for (const Case& c :
       {Case{"", "\r\n", 431}, Case{"", "A", 431}, Case{"GET /", "a", 431}, Case{"GET / HTTP/1.1\r\n", "A", 431},
        Case{"GET / HTTP/1.1\r\n", "A:b\r\n", 431}, Case{"GET / HTTP/1.1\r\nA:", " ", 431}, Case{chunked, "0", 431},
        Case{chunked + "1;", "x", 431}, Case{chunked, chunk_with_extension, 431}, Case{chunked + "0\r\n", "A", 431},
        Case{chunked + "0\r\n", "A: b\r\n", 431}, Case{chunked, "1\r\na\r\n", 413}}) {
    RequestReader reader(kLimits);
    size_t n_read = 0;
    int status = 0;
    while (status == 0 && n_read < 100'000) {
      const std::string& bytes = n_read == 0 && !c.begin.empty() ? c.begin : c.repeated;
      status = status_of(bytes, bytes.size(), reader);
      n_read += bytes.size();
    }
    EXPECT_EQ(status, c.status) << c.begin << " and then always " << c.repeated;
    EXPECT_LE(reader.body().capacity(), kLimits.max_body + 1);
  }
}

TEST(RequestReader, ChecksSkippedBodiesWithoutStoringThem) {
  RequestReader reader(kLimits);
  const std::string text = kPost + "Content-Length: 3\r\n\r\nabc";
  const size_t head = reader.read(text);
  reader.skip_body();
  EXPECT_EQ(reader.read(std::string_view(text).substr(head)), 3U);
  EXPECT_TRUE(reader.is_complete() && reader.body().empty());
}

}  // namespace
}  // namespace folio::infer::server
