// Both windows in several local indexes of any kind. Each tuple is stored in one of them, and a probe asks
// all. How tuples are dealt to the local indexes is for the strategy to say (round_robin.hpp,
// subwindow_workers.hpp).
//
// What becomes of a group is written down as commands, a queue for each local index: expire, create, insert
// and probe are those of the manager of "PanJoin: A Partition-based Adaptive Stream Join" (Pan, Jacobsen).
// One thread writes the queues; then each queue can be carried out by a thread of its own, since a command
// changes nothing but its local index. When fewer indexes are dealt to than before, the others keep what they
// hold, are probed on, and go once all of it has expired. Cost of a probe: one for each local index.
#pragma once

#include "index_pair.hpp"

namespace slidejoin::SLIDEJOIN_TARGET {

// What a local index is told to do. Positions wrap around.
struct Command {
    enum class Kind { expire, create, insert, probe } kind;
    int side = 0;
    std::uint32_t first = 0;   // expire: of the left side; create: the first position; insert: the range
    std::uint32_t last = 0;    // expire: of the right side; insert: the range, this one included
    std::uint32_t step = 1;    // insert: positions p of the range with
    std::uint32_t rest = 0;    // p % step == rest
    std::size_t capacity = 0;  // create: entries

    bool takes(std::uint32_t position) const {
        return position - first <= last - first && (step == 1 || position % step == rest);
    }
};

using CommandQueue = std::vector<Command>;

inline std::size_t bytes_of(const std::vector<CommandQueue>& queues) {
    std::size_t total = queues.capacity() * sizeof(CommandQueue);
    for (const CommandQueue& queue : queues) total += queue.capacity() * sizeof(Command);
    return total;
}

template <class Key>
class LocalIndexes : public IndexPair<Key> {
  public:
    using Make = std::unique_ptr<IndexPair<Key>> (*)(const JoinSpec& spec);

    LocalIndexes(const JoinSpec& spec, Make make) : spec_(spec), make_(make) { deal_to(1); }

    // From now on tuples are dealt to the first `count` local indexes.
    void deal_to(std::size_t count) {
        while (locals_.size() < count) locals_.push_back({make_(spec_), {}, {}, {}, {}});
        count_ = count;
        drop_unused();
    }

    std::size_t size() const { return locals_.size(); }

    // Writes the commands for a group, before which positions before left and right have expired: queue i is
    // for local index i.
    void command(const Group<Key>& group, std::uint32_t left, std::uint32_t right,
                 std::vector<CommandQueue>& queues) {
        queues.resize(locals_.size());
        for (CommandQueue& queue : queues) {
            queue.clear();
            queue.push_back({Command::Kind::expire, 0, left, right});
        }
        expired_[0] = left;
        expired_[1] = right;
        write_inserts(group, queues);
        for (std::size_t i = 0; i < queues.size(); ++i) {
            const Local& local = locals_[i];
            const bool wanted = spec_.self_join ? local.holds[0]
                                                : (group.order_count[0] && local.holds[0]) ||
                                                      (group.order_count[1] && local.holds[1]);
            if (wanted) queues[i].push_back({Command::Kind::probe});
        }
    }

    // Carries out the commands for local index i. `tasks` are a copy of the group's, and get the matches of
    // this index. Returns whether it was probed.
    template <class Matches>
    bool carry_out(std::size_t i, const CommandQueue& queue, const Group<Key>& group, Task<Key>* tasks,
                   Matches& matches) {
        bool probed = false;
        for (const Command& command : queue) {
            if (command.kind == Command::Kind::probe) {
                locals_[i].index->join(without_entries(group, tasks), matches);
                probed = true;
            } else {
                change(locals_[i], command, group);
            }
        }
        return probed;
    }

    void join(const Group<Key>& group, MatchList& matches) override { run(group, matches); }
    void join(const Group<Key>& group, MatchCount& matches) override { run(group, matches); }
    void join(const Group<Key>& group, FilteredList& matches) override { run(group, matches); }
    void join(const Group<Key>& group, MatchRanges& matches) override { run(group, matches); }

    void insert(int side, const Entry<Key>* entries, std::size_t count, const Entry<Key>* by_key) override {
        Group<Key> group{};
        group.entries[side] = entries;
        group.by_key[side] = by_key;
        group.entry_count[side] = count;
        if (count && !holds(side)) expired_[side] = entries[0].value;  // no tuple came before
        insert_all(group);
    }

    void list(int side, std::vector<Entry<Key>>& out) const override {
        for (const Local& local : locals_) local.index->list(side, out);
    }

    std::uint64_t largest_group(std::uint64_t live) const override {
        return locals_[0].index->largest_group(live);
    }

    void forget(std::uint32_t left, std::uint32_t right) override {
        expired_[0] = left;
        expired_[1] = right;
        for (Local& local : locals_) {
            local.index->forget(left, right);
            for (int side = 0; side < 2; ++side)
                local.holds[side] = local.holds[side] && !before(local.last[side], expired_[side]);
        }
        drop_unused();
    }

    void check(int side, std::uint32_t first, std::uint32_t next) const override {
        std::vector<Entry<Key>> entries;
        for (const Local& local : locals_) {
            local.index->check(side, first, next);
            entries.clear();
            local.index->list(side, entries);
            for (const Entry<Key>& entry : entries)
                require(before(entry.value, first) ||
                            (local.holds[side] && !before(local.last[side], entry.value)),
                        "local index: it is known what it holds");
        }
    }

    std::size_t bytes() const override {
        std::size_t total = sizeof *this + bytes_of(queues_);
        for (const Local& local : locals_)
            total += sizeof local + local.index->bytes() + local.entries.bytes() + local.by_key.bytes();
        return total;
    }

  protected:
    // Writes commands that insert the entries of a side, of which there is at least one, into the first
    // `count` local indexes. Positions before `expired` have expired.
    virtual void deal(int side, const Entry<Key>* entries, std::size_t entry_count, std::size_t count,
                      std::uint32_t expired, std::vector<CommandQueue>& queues) = 0;

  private:
    struct Local {
        std::unique_ptr<IndexPair<Key>> index;
        bool holds[2];          // whether it holds a tuple that has not expired, as far as is known
        std::uint32_t last[2];  // the last position that it was told to insert
        Buffer<Entry<Key>> entries, by_key;  // its share of a group
    };

    // Whether a tuple of a side may be held.
    bool holds(int side) const {
        return std::any_of(locals_.begin(), locals_.end(),
                           [side](const Local& local) { return local.holds[side]; });
    }

    template <class Matches>
    void run(const Group<Key>& group, Matches& matches) {
        insert_all(group);
        if (locals_.size() == 1) return locals_[0].index->join(without_entries(group, group.tasks), matches);
        Group<Key> one = without_entries(group, group.tasks);
        for (int side = 0; side < 2; ++side)
            for (std::size_t i = 0; i < group.order_count[side]; ++i) {
                one.order[side] = group.order[side] + i;
                one.order_count[side] = 1;
                one.order_count[1 - side] = 0;
                Task<Key>& task = group.tasks[group.order[side][i]];
                std::size_t from = 0;
                for (Local& local : locals_) {
                    local.index->join(one, matches);
                    if (&local == &locals_[0]) from = task.found_from;
                }
                task.found_from = from;
            }
    }

    static Group<Key> without_entries(Group<Key> group, Task<Key>* tasks) {
        group.tasks = tasks;
        group.entry_count[0] = group.entry_count[1] = 0;
        group.single = false;
        return group;
    }

    void insert_all(const Group<Key>& group) {
        queues_.resize(locals_.size());
        for (CommandQueue& queue : queues_) queue.clear();
        write_inserts(group, queues_);
        for (std::size_t i = 0; i < queues_.size(); ++i)
            for (const Command& command : queues_[i]) change(locals_[i], command, group);
    }

    void write_inserts(const Group<Key>& group, std::vector<CommandQueue>& queues) {
        for (int side = 0; side < 2; ++side)
            if (group.entry_count[side])
                deal(side, group.entries[side], group.entry_count[side], count_, expired_[side], queues);
        for (std::size_t i = 0; i < queues.size(); ++i)
            for (const Command& command : queues[i])
                if (command.kind == Command::Kind::insert) {
                    locals_[i].holds[command.side] = true;
                    locals_[i].last[command.side] = command.last;
                }
    }

    static void change(Local& local, const Command& command, const Group<Key>& group) {
        if (command.kind == Command::Kind::expire) local.index->forget(command.first, command.last);
        if (command.kind == Command::Kind::create)
            local.index->create(command.side, command.first, command.capacity);
        if (command.kind == Command::Kind::insert) insert_share(local, command, group);
    }

    static void insert_share(Local& local, const Command& command, const Group<Key>& group) {
        const int side = command.side;
        const Entry<Key>* const entries = group.entries[side];
        const std::size_t count = group.entry_count[side];
        if (command.step == 1 && command.takes(entries[0].value) && command.takes(entries[count - 1].value))
            return local.index->insert(side, entries, count, group.by_key[side]);
        const std::size_t chosen = choose(entries, count, command, local.entries);
        if (chosen > kGroup) choose(group.by_key[side], count, command, local.by_key);
        if (chosen) local.index->insert(side, local.entries.data(), chosen, local.by_key.data());
    }

    static std::size_t choose(const Entry<Key>* from, std::size_t count, const Command& command,
                              Buffer<Entry<Key>>& out) {
        out.reserve(count);
        std::size_t chosen = 0;
        for (std::size_t i = 0; i < count; ++i) {
            out[chosen] = from[i];
            chosen += command.takes(from[i].value);
        }
        return chosen;
    }

    void drop_unused() {
        while (locals_.size() > count_ && !locals_.back().holds[0] && !locals_.back().holds[1])
            locals_.pop_back();
    }

    JoinSpec spec_;
    Make make_;
    std::vector<Local> locals_;
    std::size_t count_ = 0;
    std::uint32_t expired_[2] = {0, 0};  // positions before these have expired
    std::vector<CommandQueue> queues_;   // of a group that one thread joins
};

}  // namespace slidejoin::SLIDEJOIN_TARGET
