// Bytes in memory-mapped files, for rows that do not fit into memory. The system writes their pages to the
// disk and drops them when memory is short.
//
// A column is a row of segments, each a file of its own without a name, mapped one behind the other. It grows
// by a segment and shrinks by unmapping one, so that nothing is copied, no file is left behind when a process
// dies, and no descriptor stays open. Space on the disk is allocated before it is used: a full disk is an
// error of the call that asks for more, which then changes nothing. Linux only.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <system_error>
#endif

namespace slidejoin {

// Files cannot grow: the disk is full, or the system refuses.
struct SpillError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A join was used by a process that was forked off the one that made it.
struct ForkError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

#if defined(__linux__)

// The files of one join, in one directory.
class SpillFiles {
  public:
    // The directory is open, and opened a second time here. A segment has at least `segment` bytes. About
    // `mapped` bytes stay mapped; the system keeps further pages as long as it has memory for them.
    SpillFiles(int directory, std::string path, std::size_t segment, std::size_t mapped)
        : directory_(fcntl(directory, F_DUPFD_CLOEXEC, 0)),
          path_(std::move(path)),
          segment_(segment),
          mapped_(mapped),
          process_(getpid()),
          resident_before_(resident()) {
        if (directory_ < 0) fail(errno, "the directory cannot be opened");
    }
    ~SpillFiles() { close(directory_); }
    SpillFiles(const SpillFiles&) = delete;

    const std::string& path() const { return path_; }
    std::size_t segment() const { return segment_; }

    // Whether the directory is in memory itself.
    bool is_memory() const {
        constexpr auto kTmpfs = 0x01021994, kRamfs = static_cast<int>(0x858458f6);
        struct statfs system{};
        if (fstatfs(directory_, &system)) return false;
        return static_cast<int>(system.f_type) == kTmpfs || static_cast<int>(system.f_type) == kRamfs;
    }

    // A new file without a name. The caller closes it.
    int open_file() const {
        int file = openat(directory_, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        for (int attempt = 0; file < 0 && attempt < kAttempts; ++attempt) {
            if (errno != EOPNOTSUPP && errno != EISDIR && errno != EEXIST) break;
            const std::string name = ".slidejoin-spill-" + std::to_string(std::random_device{}()) + "-" +
                                     std::to_string(std::random_device{}());
            file = openat(directory_, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
            if (file >= 0) unlinkat(directory_, name.c_str(), 0);
        }
        if (file < 0) fail(errno, "a file cannot be created");
        return file;
    }

    // Maps a new file in place of reserved addresses.
    void map(void* at, std::size_t bytes) const {
        const int file = open_file();
        int refused = EINTR;
        while (refused == EINTR) refused = posix_fallocate(file, 0, static_cast<off_t>(bytes));
        const void* const mapped =
            refused ? MAP_FAILED : mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
        const int error = refused ? refused : errno;
        close(file);
        if (mapped == MAP_FAILED) fail(error, "its files cannot grow by " + std::to_string(bytes) + " bytes");
    }

    // A forked process shares the pages of the files: what it writes would change the rows of the other one.
    void require_own_process() const {
        if (getpid() != process_)
            throw ForkError(
                "this join keeps its rows in files (spill=) and was made by another process; make or restore "
                "a join in this process");
    }

    // Remembers mapped addresses, and that they have moved.
    void add(const void* begin, std::size_t bytes) {
        const std::lock_guard<std::mutex> turn(lock_);
        ranges_.emplace(begin, bytes);
    }
    void change(const void* before, const void* begin, std::size_t bytes) noexcept {
        const std::lock_guard<std::mutex> turn(lock_);
        auto range = ranges_.extract(before);
        range.key() = begin;
        range.mapped() = bytes;
        ranges_.insert(std::move(range));
    }
    void remove(const void* begin) noexcept {
        const std::lock_guard<std::mutex> turn(lock_);
        ranges_.erase(begin);
    }

    // Notes that at most so many bytes were mapped by reading or writing, and unmaps all pages if there are
    // too many. Nothing is lost: a page that is used again comes from the system's cache, or from the disk.
    void touched(std::size_t bytes) {
        touched_ += bytes;
        if (touched_ < mapped_ / 4) return;
        touched_ = 0;
        const std::size_t now = resident();
        resident_before_ = std::min(resident_before_, now);
        if (now - resident_before_ < mapped_) return;
        {
            const std::lock_guard<std::mutex> turn(lock_);
            for (const auto& [begin, bytes_mapped] : ranges_)
                madvise(const_cast<void*>(begin), bytes_mapped, MADV_DONTNEED);
        }
        resident_before_ = resident();
    }

  private:
    static constexpr int kAttempts = 16;

    [[noreturn]] void fail(int error, const std::string& what) const {
        const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
        throw SpillError("spill='" + path_ + "': " + what + " (" + std::generic_category().message(error) +
                         ")" + (full ? "; make room there" : ""));
    }

    // Bytes of files that are mapped by this process and in memory.
    static std::size_t resident() {
        unsigned long long pages = 0;
        if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
            if (std::fscanf(file, "%*u %*u %llu", &pages) != 1) pages = 0;
            std::fclose(file);
        }
        return static_cast<std::size_t>(pages) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    }

    int directory_;
    std::string path_;
    std::size_t segment_;
    std::size_t mapped_;
    pid_t process_;
    std::size_t touched_ = 0;      // since the last look
    std::size_t resident_before_;  // the least since pages were unmapped
    std::mutex lock_;              // of the ranges: columns may be freed by any thread
    std::map<const void*, std::size_t> ranges_;
};

// Bytes that grow by segments at the end and are given back by segments at the start.
class SpilledBytes {
  public:
    SpilledBytes() = default;  // of no files
    explicit SpilledBytes(std::shared_ptr<SpillFiles> files) : files_(std::move(files)) {}
    SpilledBytes(SpilledBytes&& from) noexcept { swap(from); }
    SpilledBytes& operator=(SpilledBytes&& from) noexcept {
        swap(from);
        return *this;
    }
    ~SpilledBytes() {
        if (!begin_) return;
        files_->remove(begin_);
        munmap(begin_, reserved_);
    }

    explicit operator bool() const { return files_ != nullptr; }
    const std::shared_ptr<SpillFiles>& files() const { return files_; }
    std::uint8_t* data() const { return begin_; }
    std::size_t bytes() const { return bytes_; }

    // At least so many more bytes, behind those of which `live` ones are in use. Bytes may move to other
    // addresses, also if it fails.
    void grow(std::size_t more, std::size_t live) {
        const std::size_t each = whole_pages(std::clamp((live + more) / kShare, files_->segment(), kMost));
        const std::size_t count = (more + each - 1) / each;
        segments_.reserve(segments_.size() + count);
        if (bytes_ + count * each > reserved_) move(bytes_ + count * each);
        for (std::size_t i = 0; i < count; ++i) {
            try {
                files_->map(begin_ + bytes_, each);
            } catch (...) {  // which may have lost the reserved addresses
                munmap(begin_ + bytes_, reserved_ - bytes_);
                reserved_ = bytes_;
                forget_addresses();
                throw;
            }
            segments_.push_back(each);
            bytes_ += each;
            files_->change(begin_, begin_, bytes_);
        }
    }

    // Gives segments back that lie in the first `dead` bytes. Returns how many bytes these have.
    std::size_t release(std::size_t dead) {
        std::size_t count = 0, gone = 0;
        while (count < segments_.size() && gone + segments_[count] <= dead) gone += segments_[count++];
        if (!gone) return 0;
        munmap(begin_, gone);
        files_->change(begin_, begin_ + gone, bytes_ - gone);
        begin_ += gone;
        bytes_ -= gone;
        reserved_ -= gone;
        forget_addresses();
        segments_.erase(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(count));
        return gone;
    }

  private:
    static constexpr std::size_t kShare = 8;                      // a segment is this part of the whole
    static constexpr std::size_t kMost = std::size_t{256} << 20;  // at most

    static std::size_t whole_pages(std::size_t bytes) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        return (bytes + page - 1) / page * page;
    }

    // Where no address is reserved any more, others may be given these.
    void forget_addresses() noexcept {
        if (reserved_) return;
        files_->remove(begin_);
        begin_ = nullptr;
    }

    void swap(SpilledBytes& with) {
        std::swap(files_, with.files_);
        std::swap(begin_, with.begin_);
        std::swap(bytes_, with.bytes_);
        std::swap(reserved_, with.reserved_);
        std::swap(segments_, with.segments_);
    }

    // Reserves addresses for more bytes, twice as many where they are there, and maps the segments a second
    // time before the first mapping goes: a failure changes nothing.
    void move(std::size_t needed) {
        std::size_t reserved = 2 * needed;
        std::uint8_t* begin = reserve(reserved);
        if (!begin) begin = reserve(reserved = needed);
        if (!begin) throw std::bad_alloc();
        std::size_t at = 0;
        for (const std::size_t segment : segments_) {
            // With an old size of 0 mremap leaves the old mapping as it is.
            if (mremap(begin_ + at, 0, segment, MREMAP_MAYMOVE | MREMAP_FIXED, begin + at) == MAP_FAILED) {
                munmap(begin, reserved);
                throw std::bad_alloc();
            }
            at += segment;
        }
        if (begin_) {
            files_->change(begin_, begin, bytes_);
            munmap(begin_, reserved_);
        } else {
            try {
                files_->add(begin, 0);
            } catch (...) {
                munmap(begin, reserved);
                throw;
            }
        }
        begin_ = begin;
        reserved_ = reserved;
    }

    static std::uint8_t* reserve(std::size_t bytes) {
        void* begin = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return begin == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(begin);
    }

    std::shared_ptr<SpillFiles> files_;
    std::uint8_t* begin_ = nullptr;      // of the first segment
    std::size_t bytes_ = 0;              // of all segments
    std::size_t reserved_ = 0;           // addresses from the first segment on
    std::vector<std::size_t> segments_;  // bytes of each
};

#else

// Elsewhere there are no spilled bytes: the package refuses to make them.
class SpillFiles {
  public:
    SpillFiles(int, std::string, std::size_t, std::size_t) { throw SpillError("spill= needs Linux"); }
    std::string path() const { return {}; }
    bool is_memory() const { return false; }
    int open_file() const { return -1; }
    void require_own_process() const {}
    void touched(std::size_t) {}
};

class SpilledBytes {
  public:
    SpilledBytes() = default;
    explicit SpilledBytes(const std::shared_ptr<SpillFiles>&) {}
    explicit operator bool() const { return false; }
    std::shared_ptr<SpillFiles> files() const { return nullptr; }
    std::uint8_t* data() const { return nullptr; }
    std::size_t bytes() const { return 0; }
    void grow(std::size_t, std::size_t) {}
    std::size_t release(std::size_t) { return 0; }
};

#endif

}  // namespace slidejoin
