// Documents from files of any size: plain texts, with <|endoftext|> between documents, and lines of JSON, each a
// document; both also compressed by gzip. They come in pieces, so memory does not go by their size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio::data {

/// Separates documents in a plain text.
inline constexpr std::string_view kDocumentEnd = "<|endoftext|>";

class Documents {
 public:
  /// Files, and folders of files, which are taken in the order of their names. Those with the endings .jsonl and
  /// .jsonl.gz have a JSON object on each line, whose `field` is the text; all others are texts. Throws core::Error
  /// that names what is missing, or a folder without files.
  explicit Documents(const std::vector<std::string>& paths, std::string field = "text");

  /// A piece of a document: whole characters, cut at a word_border(). `n_read` bytes of the files have been read.
  struct Piece {
    std::string_view text;
    bool ends_document;
    const std::string& where;  ///< the file, for messages
    uint64_t n_read;
  };
  /// Empty documents are left out. Throws core::Error that names the file, and of JSON the line, if one can't be read.
  void read(const std::function<void(const Piece&)>& take) const;

  /// The lines that are not blank, and where each stands, for messages. Throws core::Error that names a file which is
  /// not .jsonl, or can't be read.
  void read_lines(const std::function<void(std::string_view line, const std::string& where)>& take) const;
  /// The first of them; nothing where the first file is not .jsonl, or is empty.
  [[nodiscard]] std::optional<std::string> first_line() const;

  /// The texts of pieces of several documents at once, so that all threads have something to do, and the file that the
  /// last one is of. `progress` hears of each piece how many bytes of the files were read.
  void read_together(const std::function<void(std::span<const std::string> texts, const std::string& where)>& take,
                     const std::function<void(uint64_t n_read)>& progress = {}) const;

  [[nodiscard]] uint64_t n_bytes() const { return n_bytes_; }  ///< of the files, as they lie on the disk
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  std::vector<std::filesystem::path> files_;
  std::string field_;
  uint64_t n_bytes_ = 0;
};

/// What a run is trained on.
struct TextFiles {
  std::string name;                ///< "tinyshakespeare", or the first file's or folder's name without its ending
  std::vector<std::string> paths;  ///< absolute
  std::string field;               ///< of lines of JSON
  Documents documents;
};

/// "tinyshakespeare" (fetched as by load_corpus()), files and folders. Throws core::Error as Documents does.
[[nodiscard]] TextFiles find_texts(const std::vector<std::string>& datasets, const std::string& field = "text");

}  // namespace folio::data
