// Bytes in mapped files: the same as those in memory, whatever is added and dropped; what happens when a file
// cannot grow, when pages are unmapped, and after a fork.
#if defined(__linux__)

#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "../flat.hpp"
#include "testing.hpp"

using namespace slidejoin;
using namespace testing;

namespace {

constexpr std::size_t kPage = 4096;

std::shared_ptr<SpillFiles> files_in(const char* path, std::size_t mapped = std::size_t{1} << 26) {
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto files = std::make_shared<SpillFiles>(directory, path, kPage, mapped);
    close(directory);
    return files;
}

const char* folder() {
    const char* given = std::getenv("TMPDIR");
    return given ? given : "/tmp";
}

std::size_t open_descriptors() {
    std::size_t count = 0;
    DIR* listing = opendir("/proc/self/fd");
    while (readdir(listing)) ++count;
    closedir(listing);
    return count;
}

// Bytes in a file and the same bytes in a vector.
class Twin {
  public:
    explicit Twin(const std::shared_ptr<SpillFiles>& files) : bytes_(files) {}

    void extend(std::size_t count, Random& random) {
        Copies none;
        std::uint8_t* room = bytes_.extend(count, none);
        for (std::size_t i = 0; i < count; ++i)
            model_.push_back(room[i] = static_cast<std::uint8_t>(below(random, 256)));
        none.make();
    }
    void drop(std::size_t count) {
        bytes_.drop(count);
        model_.erase(model_.begin(), model_.begin() + static_cast<std::ptrdiff_t>(count));
    }
    void truncate(std::size_t size) {
        bytes_.truncate(size);
        model_.resize(size);
    }
    void check() const {
        CHECK_EQUAL(bytes_.size(), model_.size());
        CHECK(model_.empty() || std::memcmp(bytes_.data(), model_.data(), model_.size()) == 0);
        CHECK_EQUAL(bytes_.bytes(), std::size_t{0});
    }
    std::size_t size() const { return model_.size(); }
    Flat& bytes() { return bytes_; }

  private:
    Flat bytes_;
    std::vector<std::uint8_t> model_;
};

}  // namespace

TEST(spilled_bytes_are_those_that_were_written) {
    Random random(1);
    const auto files = files_in(folder());
    const std::size_t open_before = open_descriptors();
    Twin twin(files);
    for (int step = 0; step < 3000; ++step) {
        switch (below(random, 4)) {
            case 0:
                twin.drop(below(random, twin.size() + 1));
                break;
            case 1:
                twin.truncate(twin.size() - below(random, twin.size() / 8 + 1));
                break;
            default:
                twin.extend(below(random, 3 * kPage), random);
        }
        twin.check();
        CHECK(twin.bytes().spilled() <= 2 * twin.size() + 16 * kPage);
    }
    twin.extend(200 * kPage, random);  // a segment for much
    twin.drop(twin.size() - 5);
    twin.check();
    twin.bytes().clear();
    CHECK_EQUAL(twin.bytes().spilled(), std::size_t{0});
    CHECK_EQUAL(open_descriptors(), open_before);
}

TEST(a_window_that_slides_through_files_takes_no_more_room) {
    Random random(2);
    Twin twin(files_in(folder()));
    twin.extend(64 * kPage, random);
    std::size_t most = 0;
    for (int step = 0; step < 500; ++step) {
        twin.extend(kPage - 8, random);
        twin.drop(kPage - 8);
        most = std::max(most, twin.bytes().spilled());
    }
    twin.check();
    CHECK(most <= 64 * kPage * 3 / 2);
}

TEST(a_file_that_cannot_grow_changes_nothing) {
    Random random(3);
    Twin twin(files_in(folder()));
    twin.extend(5 * kPage, random);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
    std::string why;
    for (int attempt = 0; attempt < 3; ++attempt) {
        try {
            twin.bytes().reserve(40 * kPage);
        } catch (const SpillError& error) {
            why = error.what();
        }
    }
    setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, before);
    CHECK(why.find("cannot grow by") != std::string::npos && why.find("File too large") != std::string::npos);
    twin.check();
    twin.bytes().reserve(40 * kPage);
    twin.check();
    twin.extend(80 * kPage, random);
    twin.check();
}

TEST(files_that_never_grew_leave_their_addresses_to_others) {
    Random random(7);
    const auto files = files_in("/proc");  // where no file can be made
    Flat failed(files);
    for (int attempt = 0; attempt < 3; ++attempt) {
        bool refused = false;
        try {
            failed.reserve(kPage);
        } catch (const SpillError&) {
            refused = true;
        }
        CHECK(refused);
        CHECK_EQUAL(failed.spilled(), std::size_t{0});
    }
    SpilledBytes bytes(files_in(folder()));
    for (int turn = 0; turn < 3; ++turn) {
        bytes.grow(3 * kPage, 0);
        std::memset(bytes.data(), turn, bytes.bytes());
        CHECK_EQUAL(bytes.release(bytes.bytes()), 3 * kPage);
        CHECK_EQUAL(bytes.bytes(), std::size_t{0});
    }
}

TEST(pages_that_are_unmapped_come_back) {
    Random random(4);
    const auto files = files_in(folder(), 8 * kPage);
    Twin twin(files);
    for (int step = 0; step < 50; ++step) {
        twin.extend(5 * kPage, random);
        files->touched(5 * kPage);
        twin.check();
    }
}

TEST(a_forked_process_may_not_use_the_files_and_may_end) {
    Random random(5);
    const auto files = files_in(folder());
    int status = -1;
    {
        Twin twin(files);
        twin.extend(3 * kPage, random);
        const pid_t child = fork();
        if (child == 0) {
            int code = 1;
            try {
                files->require_own_process();
            } catch (const ForkError&) {
                twin.bytes().clear();
                code = 0;
            }
            _exit(code);
        }
        waitpid(child, &status, 0);
        files->require_own_process();
        twin.check();
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(files_have_no_names_and_a_directory_that_is_gone_is_named) {
    char path[] = "/tmp/slidejoin-spill-XXXXXX";
    CHECK(mkdtemp(path));
    const auto files = files_in(path);
    Random random(6);
    Twin twin(files);
    twin.extend(kPage, random);
    CHECK(rmdir(path) == 0);  // it is empty
    std::string why;
    try {
        twin.bytes().reserve(kPage);
    } catch (const SpillError& error) {
        why = error.what();
    }
    CHECK(why.find(path) != std::string::npos);
    twin.check();
}

#endif
