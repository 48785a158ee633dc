// The answer to a request, written no faster than its client reads it: what comes is kept as it is, and becomes text
// when there is room for that. So an answer takes little memory while it waits, however long its text is.
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

/// Appends the next piece of a text, some kilobytes at most. False: it was the last one.
using TextSource = std::function<bool(std::string& text)>;

[[nodiscard]] TextSource literal(std::string text);
/// The texts one after the other.
[[nodiscard]] TextSource joined(std::vector<TextSource> sources);
/// `prefix`, then what `element`(i, text) appends for each i of `n` with commas between them, then `suffix`.
[[nodiscard]] TextSource listed(std::string prefix, size_t n, std::function<void(size_t i, std::string& text)> element,
                                std::string suffix);
/// The characters of `first`, which may be null, and `second`, escaped for a JSON string.
[[nodiscard]] TextSource escaped(std::shared_ptr<const std::string> first, std::shared_ptr<const std::string> second);

inline constexpr size_t kReplyWindow = size_t{64} << 10U;  ///< bytes that are made before the client reads them

/// Every call comes from the thread that called the handler. What is written for a client that went away goes nowhere.
class HttpReply : public std::enable_shared_from_this<HttpReply> {
 public:
  virtual ~HttpReply() = default;

  /// Before send() or begin().
  virtual void add_header(std::string_view name, std::string_view value) = 0;
  /// A whole answer, with a length if it is short. Without a content type it has no body. Calls `ended`, which may be
  /// none, when all was written.
  void send(int status, std::string_view content_type, TextSource body, std::function<void()> ended = {});
  void send(int status, std::string_view content_type, std::string body) {
    send(status, content_type, literal(std::move(body)));
  }

  // An answer in pieces.
  void begin(int status, std::string_view content_type);
  /// `cost` is given to on_written() when all of the source was written.
  void add(TextSource source, size_t cost = 0);
  void on_written(std::function<void(size_t cost)> written) { written_ = std::move(written); }
  void end(std::function<void()> ended = {});

  /// Sends an error in place of what was not written: `event` if the answer has begun, else `body`. Within a source it
  /// breaks the answer off, so that the client does not take it for a whole one.
  void fail(int status, const std::string& body, std::string_view event);
  /// Calls `lost` once, if the client goes away before the end, or reads nothing for as long as it may.
  void on_lost(std::function<void()> lost);
  /// Bytes that the client has not read yet.
  [[nodiscard]] virtual size_t unsent() const = 0;

 protected:
  /// The head of a body of `length` bytes, or of one in pieces. Either ends with finish().
  virtual void put_head(int status, std::string_view content_type, std::optional<size_t> length) = 0;
  virtual void put(std::string_view piece) = 0;
  virtual void finish() = 0;
  /// Ends the connection.
  virtual void close() = 0;

  /// For one more answer.
  void reopen();
  [[nodiscard]] bool is_open() const { return is_open_; }
  /// Fewer bytes than kReplyWindow are unsent.
  void pump();
  /// The client went away.
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
  bool is_inside_ = false;  ///< something was written, but not all of a source
  bool ends_ = false;
};

}  // namespace folio::infer::server
