// Parses one HTTP/1.1 request from bytes that may be split anywhere. Anything that a proxy could interpret as a
// different request (request smuggling) is an error. Source: RFC 9112.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"

namespace folio::infer::server {

struct RequestLimits {
  size_t max_header = size_t{16} << 10U;  ///< byte limit of the header, and separately of chunk extensions + trailers
  size_t max_body = size_t{4} << 20U;
};

/// Thrown if a request can't be parsed. The connection must be closed after an answer with this status.
class RequestError : public core::Error {
 public:
  RequestError(int status, const std::string& what) : core::Error(what), status_(status) {}
  [[nodiscard]] int status() const { return status_; }

 private:
  int status_;
};

struct HttpRequest {
  std::string method{};    ///< the method; GET if the request is HEAD
  bool head_only = false;  ///< true: the method was HEAD, so the answer has no body
  std::string path{};      ///< the target without the query
  std::string body{};
  std::shared_ptr<void> body_memory{};  ///< counts the body in max_body_bytes; must not outlive the server
  // Values of headers; empty if absent.
  std::string host{};
  std::string origin{};
  std::string content_type{};
  std::string authorization{};
  /// Seed to use if the body has none. Set by callers in this process, so that they can repeat the request.
  std::optional<uint64_t> random_seed{};
};

struct RequestHead : HttpRequest {  // a parsed header; `body` is not set
  unsigned version = 11;            ///< 10: HTTP/1.0, 11: HTTP/1.1
  bool keep_alive = true;
  bool expects_continue = false;
  bool chunked = false;
  size_t content_length = 0;  ///< 0 if the body is chunked
};

class RequestReader {
 public:
  explicit RequestReader(const RequestLimits& limits) : limits_(limits) {}

  /// Parses `bytes` and returns how many were consumed. Stops at the end of the header; the next calls continue to the
  /// end of the request. Throws RequestError if the request is not valid.
  size_t read(std::string_view bytes);

  [[nodiscard]] bool has_begun() const { return has_begun_; }
  [[nodiscard]] bool has_head() const { return state_ > State::Header; }
  [[nodiscard]] bool is_complete() const { return state_ == State::Complete; }

  /// Returns the parsed header; valid once has_head() returns true.
  [[nodiscard]] RequestHead& head() { return head_; }
  /// Returns the body read so far.
  [[nodiscard]] std::string& body() { return body_; }
  /// Stops storing the body. The rest of it is parsed and checked, but discarded.
  void skip_body() { skips_body_ = true; }

 private:
  enum class State { RequestLine, Header, ChunkSize, Data, ChunkEnd, Trailer, Complete };

  size_t read_line(std::string_view bytes);
  size_t read_data(std::string_view bytes);
  void take_line(std::string_view line);
  void take_request_line(std::string_view line);
  void take_field(std::string_view line);
  void take_chunk_size(std::string_view line);
  void end_header();

  RequestLimits limits_;
  State state_ = State::RequestLine;
  bool has_begun_ = false;
  bool skips_body_ = false;
  RequestHead head_;
  std::string body_;
  std::string line_;         ///< the part of the current line read so far
  size_t n_overhead_ = 0;    ///< bytes that count against max_header
  size_t n_body_ = 0;        ///< size of the body: Content-Length, or the sum of the chunk sizes so far
  size_t n_left_ = 0;        ///< bytes left to read of the body or the current chunk
  unsigned seen_ = 0;        ///< bit set of the headers read so far that may appear only once
  std::string connection_;   ///< values of all Connection headers in lower case, each after a comma
  std::string length_;       ///< the value of Content-Length
  std::string coding_;       ///< the value of Transfer-Encoding
  std::string expectation_;  ///< the value of Expect
};

/// Returns `text` without spaces and tabs at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);
/// Returns `text` with A to Z in lower case.
[[nodiscard]] std::string lower_case(std::string_view text);

}  // namespace folio::infer::server
