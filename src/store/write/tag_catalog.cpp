#include "store/write/tag_catalog.hpp"

#include <new>
#include <string>
#include <utility>

#include "base/raise.hpp"

namespace icecore::detail {

tag_catalog::turn listed_tags::reserve(std::string_view /*name*/, std::string_view /*note*/) {
  std::unique_lock one_at_a_time(mutex_);
  list_.reserve();
  return {std::move(one_at_a_time), {}};
}

void listed_tags::load(tag_index& into) {
  // relaxed: the tags have a mutex of their own
  if (loaded_.load(std::memory_order_relaxed)) return;
  const std::scoped_lock one_at_a_time(mutex_);
  if (loaded_.load(std::memory_order_relaxed)) return;  // relaxed: under the mutex
  list_.require_as_closed();
  list_.for_each([&](link l) {
    const record r = histories_->at(l);
    const bool is_tag = media_->is_intact(l) && r.kind() == format::record_kind::tag &&
                        r.header().stamp.load(std::memory_order_acquire) != 0;  // acquire: as for any stamp
    if (!is_tag) media_->raise_damaged(l, "the list of tags leads here, but no intact tag is here");
    into.add({histories_->stamp_of(l), r.as_tag().time_ns, std::string(r.key()), std::string(r.value())});
    return true;
  });
  loaded_.store(true, std::memory_order_relaxed);
}

bool listed_tags::lists(link tag) {
  const std::scoped_lock one_at_a_time(mutex_);
  bool is_there = false;
  list_.for_each([&](link l) {
    is_there = l == tag;
    return !is_there;
  });
  return is_there;
}

void listed_tags::leave_evidence() const {
  if (loaded_.load(std::memory_order_relaxed)) list_.leave_evidence();  // relaxed: nothing else runs
}

// ---- Of a store that processes share ----

void shared_tags::tell(const std::vector<tag_info>& all) {
  for (const tag_info& tag : all) {
    const index::arena_ref place = told_->reserve(*memory_, tag.name, tag.note);
    told_->append(*memory_, place, tag.version, tag.time_ns);
  }
}

std::unique_lock<process_lock> shared_tags::lock_among_processes() const {
  std::unique_lock held(told_->lock());
  if (!told_->lock().owner_died()) return held;
  held.unlock();  // who recovers the killed one's writer takes it
  writers_->recover_dead_writers();
  held.lock();
  told_->repair(*memory_);
  told_->lock().mark_consistent();
  return held;
}

tag_catalog::turn shared_tags::reserve(std::string_view name, std::string_view note) {
  turn mine{std::unique_lock(*mutex_), {}};
  mine.among_processes = lock_among_processes();
  load(*known_);
  if (const auto there = name.empty() ? std::nullopt : known_->find(name)) {
    raise(errc::tag_exists, "a tag named '{}' exists already, on version {}", name, there->version);
  }
  // The lock that this returns may go: who appends to the own catalog holds these.
  const turn own = own_->reserve(name, note);
  try {
    reserved_ = told_->reserve(*memory_, name, note);
  } catch (const std::bad_alloc&) {
    raise(errc::no_space, "a tag of {} bytes: the memory that the processes share is full", name.size() + note.size());
  }
  const std::scoped_lock no_load(reading_);
  made_here_.reserve(made_here_.size() + 1);
  return mine;
}

void shared_tags::append(link tag) {
  own_->append(tag);
  const version tagged = records_->stamp_of_own(tag);
  {
    const std::scoped_lock no_load(reading_);
    made_here_.push_back(tagged);
  }
  told_->append(*memory_, reserved_, tagged, records_->at(tag).as_tag().time_ns);
}

void shared_tags::load(tag_index& into) {
  own_->load(into);
  const std::scoped_lock one_at_a_time(reading_);
  told_->for_each_new(*memory_, here_, [&](tag_info tag) {
    if (std::erase(made_here_, tag.version) == 0) into.add(std::move(tag));
  });
}

bool shared_tags::lists(link tag) {
  const std::scoped_lock one_at_a_time(*mutex_);  // who appends here holds this one, not the own catalog's
  const std::unique_lock others = lock_among_processes();
  return own_->lists(tag);
}

}  // namespace icecore::detail
