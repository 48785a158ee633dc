// What std::filesystem does, with errors that are core::Error: one line that names the path and the reason.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace folio::core {

/// Throws Error if the path cannot name a file: it has a NUL byte, where the system would end it.
void require_path(const std::filesystem::path& path);

/// What the path names, through links. A link to nowhere names nothing. These throw Error where that cannot be found
/// out: a link loop, a name that is too long, a folder that may not be read.
[[nodiscard]] bool path_exists(const std::filesystem::path& path);
[[nodiscard]] bool is_folder(const std::filesystem::path& path);
[[nodiscard]] bool is_plain_file(const std::filesystem::path& path);

/// Bytes of a regular file. Throws Error for anything else.
[[nodiscard]] uint64_t size_of_file(const std::filesystem::path& path);

/// The path without links, "." and ".."; what of it does not exist stays as it is.
[[nodiscard]] std::filesystem::path without_links(const std::filesystem::path& path);

[[nodiscard]] std::filesystem::path absolute_path(const std::filesystem::path& path);

/// The regular files in the folder and in the folders of it, except hidden ones, sorted. Links to folders are not
/// followed.
[[nodiscard]] std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

/// Makes the folder and those above it that are missing. Returns whether the folder is new.
bool make_folders(const std::filesystem::path& folder);

/// The system's reason for an error number, with a remedy where there is one: "File name too long; use a shorter name".
[[nodiscard]] std::string reason_of(int error);

/// "a folder", "a pipe" and so on, by the mode of stat().
[[nodiscard]] const char* kind_of_file(mode_t mode);

/// The message of an error of std::filesystem, as those above have it.
[[nodiscard]] std::string describe(const std::filesystem::filesystem_error& error);

}  // namespace folio::core
