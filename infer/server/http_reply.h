// The answer to a request, written only as fast as the client reads it. Output waits in a compact form and becomes text
// when the client can take more, so that a waiting answer needs little memory, however long it is.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace folio::infer::server {

/// Appends the next piece of a text, some kilobytes at most. Returns false after the last piece.
using TextSource = std::function<bool(std::string& text)>;

[[nodiscard]] TextSource literal(std::string text);
/// Concatenates `sources`.
[[nodiscard]] TextSource joined(std::vector<TextSource> sources);
/// Writes `prefix`, then what `element`(i, text) appends for each i < n, separated by commas, then `suffix`.
[[nodiscard]] TextSource listed(std::string prefix, size_t n, std::function<void(size_t i, std::string& text)> element,
                                std::string suffix);
/// Writes `first`, which may be null, and `second`, escaped for a JSON string.
[[nodiscard]] TextSource escaped(std::shared_ptr<const std::string> first, std::shared_ptr<const std::string> second);

inline constexpr size_t kReplyWindow = size_t{64} << 10U;  ///< unread bytes up to which output is produced ahead

/// All calls must come from the thread that called the handler. Output for a disconnected client is discarded.
class HttpReply : public std::enable_shared_from_this<HttpReply> {
 public:
  virtual ~HttpReply() = default;

  /// Adds a header; only before send() or begin().
  virtual void add_header(std::string_view name, std::string_view value) = 0;
  /// Sends a whole answer, with Content-Length if it is short. Without a content type it has no body. Calls `ended`, if
  /// set, when everything was written.
  void send(int status, std::string_view content_type, TextSource body, std::function<void()> ended = {});
  void send(int status, std::string_view content_type, std::string body) {
    send(status, content_type, literal(std::move(body)));
  }

  // An answer in pieces: begin(), add() for each, end().
  void begin(int status, std::string_view content_type);
  /// Queues a source. Once all of it was written, the function set by on_written() receives `cost`.
  void add(TextSource source, size_t cost = 0);
  void on_written(std::function<void(size_t cost)> written) { written_ = std::move(written); }
  void end(std::function<void()> ended = {});

  /// Sends an error in place of output not yet written: `event` if the answer has begun, else `body`. Within a source
  /// it closes the connection, so that the client doesn't mistake the answer for a whole one.
  void fail(int status, const std::string& body, std::string_view event);
  /// Calls `lost` once if, before the end, the client disconnects or reads nothing for too long.
  void on_lost(std::function<void()> lost);
  /// Returns the bytes that the client has not read yet.
  [[nodiscard]] virtual size_t unsent() const = 0;

 protected:
  /// Writes the head of a body with `length` bytes, or in chunks (nullopt). Either is completed by finish().
  virtual void put_head(int status, std::string_view content_type, std::optional<size_t> length) = 0;
  virtual void put(std::string_view piece) = 0;
  virtual void finish() = 0;
  /// Closes the connection.
  virtual void close() = 0;

  /// Prepares for the next answer on the connection.
  void reopen();
  [[nodiscard]] bool is_open() const { return is_open_; }
  /// Writes queued output until kReplyWindow bytes are unsent.
  void pump();
  /// Handles a client that has disconnected.
  void lose();

 private:
  struct Entry {
    TextSource source;
    size_t cost;
  };
  [[nodiscard]] static bool fill(const TextSource& source, std::string& piece);
  void release();

  std::deque<Entry> entries_{};
  std::function<void(size_t cost)> written_{};
  std::function<void()> ended_{};
  std::function<void()> lost_{};
  bool is_open_ = true;  ///< more may be written
  bool has_begun_ = false;
  bool is_inside_ = false;  ///< a source was written in part
  bool ends_ = false;
};

}  // namespace folio::infer::server
