! What the module icecore calls of include/icecore/icecore.h, with the same names and structures.
module icecore_c
  use, intrinsic :: iso_c_binding
  implicit none
  public

  type, bind(c) :: icecore_bytes_c
    type(c_ptr) :: data = c_null_ptr
    integer(c_size_t) :: size = 0
  end type icecore_bytes_c

  type, bind(c) :: icecore_value_c
    type(c_ptr) :: data = c_null_ptr
    integer(c_size_t) :: size = 0
    type(c_ptr) :: pin = c_null_ptr
  end type icecore_value_c

  type, bind(c) :: icecore_options_c
    integer(c_size_t) :: struct_size
    integer(c_int) :: access, creation, durability, emulate_durability, accept_copy, huge_pages, index
    integer(c_int) :: recovery_threads
    type(c_funptr) :: on_progress
    type(c_ptr) :: progress_context
    integer(c_int) :: accept_damage
    type(c_ptr) :: placements
    integer(c_size_t) :: placement_count
    integer(c_int) :: change_index
    integer(c_int64_t) :: lookup_cache_bytes
    type(c_ptr) :: shared_as
    integer(c_int) :: crash, deferred_durability, grow_in_background, beside_writer, publish_settled
    integer(c_int64_t) :: block_cache_bytes
    integer(c_int) :: never_locks
    integer(c_int) :: compaction, compaction_threads
    integer(c_int64_t) :: compaction_bytes_per_second, compaction_young_bytes
    integer(c_int) :: compaction_compress
  end type icecore_options_c

  type, bind(c) :: icecore_tag_options_c
    integer(c_size_t) :: struct_size
    type(icecore_bytes_c) :: name, note
    integer(c_int64_t) :: time_ns
  end type icecore_tag_options_c

  type, bind(c) :: icecore_tag_c
    integer(c_int64_t) :: version, time_ns
    type(icecore_bytes_c) :: name, note
  end type icecore_tag_c

  type, bind(c) :: icecore_change_c
    integer(c_int64_t) :: version
    type(icecore_bytes_c) :: value
  end type icecore_change_c

  type, bind(c) :: icecore_difference_c
    type(icecore_bytes_c) :: key, before, after
  end type icecore_difference_c

  interface
    type(c_ptr) function icecore_last_error_message() bind(c)
      import :: c_ptr
    end function
    type(c_ptr) function icecore_library_version() bind(c)
      import :: c_ptr
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_size_t, c_ptr
      type(c_ptr), value :: text
    end function

    subroutine icecore_options_init(options, struct_size) bind(c)
      import :: icecore_options_c, c_size_t
      type(icecore_options_c), intent(out) :: options
      integer(c_size_t), value :: struct_size
    end subroutine
    integer(c_int) function icecore_open(path, options, store) bind(c)
      import :: c_int, c_char, c_ptr, icecore_options_c
      character(kind=c_char), intent(in) :: path(*)
      type(icecore_options_c), intent(in) :: options
      type(c_ptr), intent(out) :: store
    end function
    integer(c_int) function icecore_close(store) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: store
    end function
    integer(c_int) function icecore_sync(store) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: store
    end function
    integer(c_int) function icecore_clock(store, clock) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: store
      integer(c_int64_t), intent(out) :: clock
    end function

    ! ---- Writing ----
    integer(c_int) function icecore_insert(store, key, key_size, value, value_size, version) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t, c_int64_t
      type(c_ptr), value :: store, value
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size, value_size
      integer(c_int64_t), intent(out) :: version
    end function
    integer(c_int) function icecore_insert_new(store, key, key_size, value, value_size, version) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t, c_int64_t
      type(c_ptr), value :: store, value
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size, value_size
      integer(c_int64_t), intent(out) :: version
    end function
    integer(c_int) function icecore_remove(store, key, key_size, version) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t, c_int64_t
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size
      integer(c_int64_t), intent(out) :: version
    end function
    integer(c_int) function icecore_batch_new(batch) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), intent(out) :: batch
    end function
    subroutine icecore_batch_free(batch) bind(c)
      import :: c_ptr
      type(c_ptr), value :: batch
    end subroutine
    integer(c_int) function icecore_batch_insert(batch, key, key_size, value, value_size) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t
      type(c_ptr), value :: batch, value
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size, value_size
    end function
    integer(c_int) function icecore_batch_remove(batch, key, key_size) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t
      type(c_ptr), value :: batch
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size
    end function
    integer(c_int) function icecore_apply(store, batch, version) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: store, batch
      integer(c_int64_t), intent(out) :: version
    end function

    ! ---- Tags ----
    subroutine icecore_tag_options_init(options, struct_size) bind(c)
      import :: icecore_tag_options_c, c_size_t
      type(icecore_tag_options_c), intent(out) :: options
      integer(c_size_t), value :: struct_size
    end subroutine
    integer(c_int) function icecore_tag_now(store, version) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: store
      integer(c_int64_t), intent(out) :: version
    end function
    integer(c_int) function icecore_tag_with(store, options, version) bind(c)
      import :: c_int, c_ptr, c_int64_t, icecore_tag_options_c
      type(c_ptr), value :: store
      type(icecore_tag_options_c), intent(in) :: options
      integer(c_int64_t), intent(out) :: version
    end function
    integer(c_int) function icecore_find_tag(store, name, name_size, tag) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: name_size
      type(c_ptr), intent(out) :: tag
    end function
    subroutine icecore_tag_free(tag) bind(c)
      import :: c_ptr
      type(c_ptr), value :: tag
    end subroutine

    ! ---- Reading ----
    integer(c_int) function icecore_find(store, key, key_size, value) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t, icecore_value_c
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size
      type(icecore_value_c), intent(out) :: value
    end function
    subroutine icecore_value_release(value) bind(c)
      import :: icecore_value_c
      type(icecore_value_c), intent(inout) :: value
    end subroutine
    integer(c_int) function icecore_at_version(store, closed, snapshot) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: store
      integer(c_int64_t), value :: closed
      type(c_ptr), intent(out) :: snapshot
    end function
    integer(c_int) function icecore_at_tag(store, name, name_size, snapshot) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: name_size
      type(c_ptr), intent(out) :: snapshot
    end function
    integer(c_int) function icecore_latest(store, snapshot) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: store
      type(c_ptr), intent(out) :: snapshot
    end function
    subroutine icecore_snapshot_close(snapshot) bind(c)
      import :: c_ptr
      type(c_ptr), value :: snapshot
    end subroutine
    integer(c_int64_t) function icecore_snapshot_version(snapshot) bind(c)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: snapshot
    end function
    integer(c_int) function icecore_snapshot_find(snapshot, key, key_size, value) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t, icecore_bytes_c
      type(c_ptr), value :: snapshot
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size
      type(icecore_bytes_c), intent(out) :: value
    end function

    ! ---- Cursors, histories, differences ----
    integer(c_int) function icecore_cursor_open(snapshot, from, from_size, to, to_size, cursor) bind(c)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: snapshot, from, to
      integer(c_size_t), value :: from_size, to_size
      type(c_ptr), intent(out) :: cursor
    end function
    integer(c_int) function icecore_cursor_open_prefix(snapshot, prefix, prefix_size, cursor) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t
      type(c_ptr), value :: snapshot
      character(kind=c_char), intent(in) :: prefix(*)
      integer(c_size_t), value :: prefix_size
      type(c_ptr), intent(out) :: cursor
    end function
    subroutine icecore_cursor_close(cursor) bind(c)
      import :: c_ptr
      type(c_ptr), value :: cursor
    end subroutine
    integer(c_int) function icecore_cursor_seek_first(cursor) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: cursor
    end function
    integer(c_int) function icecore_cursor_next(cursor) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: cursor
    end function
    integer(c_int) function icecore_cursor_valid(cursor) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: cursor
    end function
    type(icecore_bytes_c) function icecore_cursor_key(cursor) bind(c)
      import :: icecore_bytes_c, c_ptr
      type(c_ptr), value :: cursor
    end function
    type(icecore_bytes_c) function icecore_cursor_value(cursor) bind(c)
      import :: icecore_bytes_c, c_ptr
      type(c_ptr), value :: cursor
    end function

    integer(c_int) function icecore_history_open(store, key, key_size, order, history) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size
      integer(c_int), value :: order
      type(c_ptr), intent(out) :: history
    end function
    integer(c_int) function icecore_history_next(history, change) bind(c)
      import :: c_int, c_ptr, icecore_change_c
      type(c_ptr), value :: history
      type(icecore_change_c), intent(out) :: change
    end function
    subroutine icecore_history_close(history) bind(c)
      import :: c_ptr
      type(c_ptr), value :: history
    end subroutine

    integer(c_int) function icecore_diff_open(store, before, after, from, from_size, to, to_size, diff) bind(c)
      import :: c_int, c_ptr, c_size_t, c_int64_t
      type(c_ptr), value :: store, from, to
      integer(c_int64_t), value :: before, after
      integer(c_size_t), value :: from_size, to_size
      type(c_ptr), intent(out) :: diff
    end function
    integer(c_int) function icecore_diff_next(diff, difference) bind(c)
      import :: c_int, c_ptr, icecore_difference_c
      type(c_ptr), value :: diff
      type(icecore_difference_c), intent(out) :: difference
    end function
    subroutine icecore_diff_close(diff) bind(c)
      import :: c_ptr
      type(c_ptr), value :: diff
    end subroutine
  end interface
end module icecore_c
