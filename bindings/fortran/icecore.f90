! An ordered map that keeps every version of itself, from Fortran 2008.
!
!   use icecore
!   type(icecore_store) :: store
!   type(icecore_snapshot) :: then
!   real(real64) :: field(1000)
!   real(real64), allocatable :: old(:)
!
!   call store%open('model.ice')
!   call store%insert('temperature', field)
!   call store%tag('step-1')                       ! closes the version: an immutable snapshot
!   call store%insert('temperature', field + 1)
!   call store%at(then, tag='step-1')
!   call then%find('temperature', old)             ! what it was, now and for ever; not allocated if it is not there
!   call store%close()
!
! Errors: every procedure that can fail takes stat= (an integer: 0, or a number of icecore_codes.h) and message= (text, as of
!   iomsg=: what failed, where, what to do). Without stat= an error ends the program with the message.
! Values: text of any bytes, and arrays of one dimension of int8, int32, int64, real32 and real64, stored as they are in
!   memory. A find gives an allocated copy; a value whose size is no multiple of the element's is an error.
! Keys: text, every character of it counts, trailing blanks too.
! Objects: they are released when they are closed or go out of scope. They must not be copied by assignment.
! Threads, durability, costs, and what versions mean: include/icecore/store.hpp and docs/guarantees.md.
module icecore
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use icecore_c
  use icecore_support
  use icecore_reading
  use icecore_batches
  use icecore_upkeep
  implicit none
  private
  public :: int8, int32, int64, real32, real64
  public :: icecore_retention, icecore_hold, icecore_forget_report, icecore_compaction_report, icecore_compact
  public :: icecore_readable, icecore_snapshot, icecore_cursor, icecore_batch, icecore_library
  public :: ICECORE_OK, ICECORE_INVALID_ARGUMENT, ICECORE_KEY_TOO_LONG, ICECORE_VALUE_TOO_LARGE, ICECORE_NOT_A_STORE
  public :: ICECORE_DAMAGED, ICECORE_LOCKED, ICECORE_NO_SPACE, ICECORE_VERSION_NOT_CLOSED, ICECORE_UNKNOWN_TAG
  public :: ICECORE_TAG_EXISTS, ICECORE_IS_READ_ONLY, ICECORE_CLOSED, ICECORE_NO_SUCH_STORE, ICECORE_STORE_EXISTS
  public :: ICECORE_NO_SUCH_QUERY, ICECORE_QUERY_EXISTS, ICECORE_VERSION_EXPIRED

  ! A version's number: from 1 upwards, one more with each tag. 0: no version.
  integer, parameter, public :: icecore_version = int64

  integer, parameter, public :: ICECORE_READ_WRITE = 0, ICECORE_READ_ONLY = 1
  integer, parameter, public :: ICECORE_OPEN_OR_CREATE = 0, ICECORE_OPEN_EXISTING = 1, ICECORE_CREATE_NEW = 2
  integer, parameter, public :: ICECORE_DURABILITY_BEST = 0, ICECORE_DURABILITY_NONE = 1
  integer, parameter, public :: ICECORE_DURABILITY_TAG = 2, ICECORE_DURABILITY_OPERATION = 3
  integer, parameter, public :: ICECORE_INDEX_BTREE = 1, ICECORE_INDEX_SKIP_LIST = 2, ICECORE_INDEX_PERSISTENT = 3
  integer, parameter, public :: ICECORE_INDEX_LIST = 4, ICECORE_INDEX_HASH = 5

  type, extends(icecore_readable), public :: icecore_store
  contains
    procedure :: look_up => look_up_in_store
    procedure :: open => store_open
    procedure :: close => store_close
    procedure :: is_open => store_is_open
    procedure, private :: insert_text
    procedure, private :: insert_int8
    procedure, private :: insert_int32
    procedure, private :: insert_int64
    procedure, private :: insert_real32
    procedure, private :: insert_real64
    ! call store%insert(key, value [, version, stat, message]): version is the one that the write belongs to.
    generic :: insert => insert_text, insert_int8, insert_int32, insert_int64, insert_real32, insert_real64
    procedure :: insert_new => store_insert_new
    procedure :: remove => store_remove
    procedure :: apply => store_apply
    procedure :: tag => store_tag
    procedure :: find_tag => store_find_tag
    procedure :: clock => store_clock
    procedure :: sync => store_sync
    procedure :: at => store_at
    procedure :: history => store_history
    procedure :: diff => store_diff
    procedure :: set_retention => store_set_retention
    procedure :: get_retention => store_get_retention
    procedure :: is_expired => store_is_expired
    procedure :: hold => store_hold
    procedure :: release => store_release_version
    procedure :: holds => store_holds
    procedure :: forget => store_forget
    final :: store_release
  end type icecore_store

  ! Walks over the records of one key: do while (history%next(version, value)); value is not allocated where it was removed.
  type, public :: icecore_history
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: next => history_next
    procedure :: close => history_close
    final :: history_release
  end type icecore_history

  ! Walks over what differs between two versions: do while (diff%next(key, before, after)).
  type, public :: icecore_diff
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: next => diff_next
    procedure :: close => diff_close
    final :: diff_release
  end type icecore_diff

contains

  subroutine look_up_in_store(self, key, value, code)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    type(icecore_value_c), intent(out) :: value
    integer(c_int), intent(out) :: code
    code = icecore_find(self%handle, key, len(key, c_size_t), value)
  end subroutine

  ! ---- Opening and closing ----

  ! Opens the store, and makes it if it is not there. The arguments are those of icecore_options in icecore.h, which says
  ! what they mean.
  subroutine store_open(self, path, access, creation, durability, index, emulate_durability, stat, message)
    class(icecore_store), intent(inout) :: self
    character(len=*), intent(in) :: path
    integer, intent(in), optional :: access, creation, durability, index
    logical, intent(in), optional :: emulate_durability
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(icecore_options_c) :: options

    if (c_associated(self%handle)) then
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, &
                  trim(path) // ': this object has a store open: close it first')
      return
    end if
    if (scan(path, c_null_char) /= 0) then
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, 'a path may not hold char(0)')
      return
    end if
    call icecore_options_init(options, c_sizeof(options))
    if (present(access)) options%access = access
    if (present(creation)) options%creation = creation
    if (present(durability)) options%durability = durability
    if (present(index)) options%index = index
    if (present(emulate_durability)) options%emulate_durability = merge(1, 0, emulate_durability)
    call report(icecore_open(trim(path) // c_null_char, options, self%handle), stat, message)
  end subroutine

  logical function store_is_open(self) result(is)
    class(icecore_store), intent(in) :: self
    is = c_associated(self%handle)
  end function

  ! Makes everything durable, as far as the device can, and releases the store, even if it fails. Closing what is not
  ! open does nothing.
  subroutine store_close(self, stat, message)
    class(icecore_store), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int) :: code
    code = ICECORE_OK
    if (c_associated(self%handle)) code = icecore_close(self%handle)
    self%handle = c_null_ptr
    call report(code, stat, message)
  end subroutine

  subroutine store_release(self)
    type(icecore_store), intent(inout) :: self
    call self%close()
  end subroutine

  ! Returns when all completed writes survive a power cut, as far as the medium allows.
  subroutine store_sync(self, stat, message)
    class(icecore_store), intent(in) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    if (is_missing(self%handle, 'the store', stat, message)) return
    call report(icecore_sync(self%handle), stat, message)
  end subroutine

  ! ---- Writing ----

  subroutine put(self, key, data, bytes, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    type(c_ptr), intent(in) :: data
    integer(int64), intent(in) :: bytes
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int64_t) :: written
    integer(c_int) :: code
    if (present(version)) version = 0
    if (is_missing(self%handle, 'the store', stat, message)) return
    code = icecore_insert(self%handle, key, len(key, c_size_t), data, int(bytes, c_size_t), written)
    if (present(version)) version = written
    call report(code, stat, message)
  end subroutine

  subroutine insert_text(self, key, value, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    character(len=*), intent(in), target :: value
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(c_ptr) :: data
    data = c_loc(value)  ! by itself: as an argument gfortran 12 would hand over the length of value as that of message
    call put(self, key, data, len(value, int64), version, stat, message)
  end subroutine

  ! Inserts the key if it is not there; version is 0 if it was: then nothing has changed.
  subroutine store_insert_new(self, key, value, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    character(len=*), intent(in), target :: value
    integer(icecore_version), intent(out) :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    version = 0
    if (is_missing(self%handle, 'the store', stat, message)) return
    call report(icecore_insert_new(self%handle, key, len(key, c_size_t), c_loc(value), len(value, c_size_t), version), &
                stat, message)
  end subroutine

  ! Removes the key in the open version; version is 0 if it was not there.
  subroutine store_remove(self, key, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int64_t) :: removed
    integer(c_int) :: code
    if (present(version)) version = 0
    if (is_missing(self%handle, 'the store', stat, message)) return
    code = icecore_remove(self%handle, key, len(key, c_size_t), removed)
    if (present(version)) version = removed
    call report(code, stat, message)
  end subroutine

  ! Applies the batch and leaves it unchanged. A batch without operations does nothing, and its version is 0.
  subroutine store_apply(self, batch, version, stat, message)
    class(icecore_store), intent(in) :: self
    type(icecore_batch), intent(in) :: batch
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int64_t) :: written
    integer(c_int) :: code
    if (present(version)) version = 0
    if (is_missing(self%handle, 'the store', stat, message)) return
    written = 0
    code = ICECORE_OK
    if (c_associated(batch%handle)) code = icecore_apply(self%handle, batch%handle, written)
    if (present(version)) version = written
    call report(code, stat, message)
  end subroutine

  subroutine insert_int8(self, key, value, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    integer(int8), intent(in), contiguous, target :: value(:)
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call put(self, key, c_loc(value), size(value, kind=int64) * 1_int64, version, stat, message)
  end subroutine

  subroutine insert_int32(self, key, value, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    integer(int32), intent(in), contiguous, target :: value(:)
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call put(self, key, c_loc(value), size(value, kind=int64) * 4_int64, version, stat, message)
  end subroutine

  subroutine insert_int64(self, key, value, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    integer(int64), intent(in), contiguous, target :: value(:)
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call put(self, key, c_loc(value), size(value, kind=int64) * 8_int64, version, stat, message)
  end subroutine

  subroutine insert_real32(self, key, value, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    real(real32), intent(in), contiguous, target :: value(:)
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call put(self, key, c_loc(value), size(value, kind=int64) * 4_int64, version, stat, message)
  end subroutine

  subroutine insert_real64(self, key, value, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    real(real64), intent(in), contiguous, target :: value(:)
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call put(self, key, c_loc(value), size(value, kind=int64) * 8_int64, version, stat, message)
  end subroutine

  ! ---- Versions ----

  ! Closes the open version: it is an immutable snapshot from now on. A name is given once in a store.
  subroutine store_tag(self, name, note, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in), optional, target :: name, note
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(icecore_tag_options_c) :: options
    integer(c_int64_t) :: closed
    integer(c_int) :: code

    if (present(version)) version = 0
    if (is_missing(self%handle, 'the store', stat, message)) return
    if (present(name) .or. present(note)) then
      call icecore_tag_options_init(options, c_sizeof(options))
      if (present(name)) options%name = icecore_bytes_c(c_loc(name), len(name, c_size_t))
      if (present(note)) options%note = icecore_bytes_c(c_loc(note), len(note, c_size_t))
      code = icecore_tag_with(self%handle, options, closed)
    else
      code = icecore_tag_now(self%handle, closed)
    end if
    if (present(version)) version = closed
    call report(code, stat, message)
  end subroutine

  ! The version of a tag's name, 0 if there is none, and its note and time (nanoseconds since 1970-01-01 UTC).
  subroutine store_find_tag(self, name, version, note, time_ns, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: name
    integer(icecore_version), intent(out) :: version
    character(len=:), allocatable, intent(out), optional :: note
    integer(int64), intent(out), optional :: time_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(c_ptr) :: handle
    type(icecore_tag_c), pointer :: tag

    version = 0
    if (present(time_ns)) time_ns = 0
    if (is_missing(self%handle, 'the store', stat, message)) return
    call report(icecore_find_tag(self%handle, name, len(name, c_size_t), handle), stat, message)
    if (.not. c_associated(handle)) return
    call c_f_pointer(handle, tag)
    version = tag%version
    if (present(time_ns)) time_ns = tag%time_ns
    if (present(note)) then
      note = ''
      if (tag%note%size > 0) call copy_text(tag%note, note)
    end if
    call icecore_tag_free(handle)
  end subroutine

  ! The version that a write now belongs to; all smaller ones are closed.
  integer(icecore_version) function store_clock(self, stat, message) result(clock)
    class(icecore_store), intent(in) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    clock = 0
    if (is_missing(self%handle, 'the store', stat, message)) return
    call report(icecore_clock(self%handle, clock), stat, message)
  end function

  ! A closed version, by its tag's name or its number; without both the present, which is closed by that.
  subroutine store_at(self, snapshot, tag, version, stat, message)
    class(icecore_store), intent(in) :: self
    type(icecore_snapshot), intent(inout) :: snapshot
    character(len=*), intent(in), optional :: tag
    integer(icecore_version), intent(in), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message

    call snapshot%close()
    if (is_missing(self%handle, 'the store', stat, message)) return
    if (present(tag) .and. present(version)) then
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, 'a snapshot is of a tag or of a version: leave one out')
    else if (present(tag)) then
      call report(icecore_at_tag(self%handle, tag, len(tag, c_size_t), snapshot%handle), stat, message)
    else if (present(version)) then
      call report(icecore_at_version(self%handle, version, snapshot%handle), stat, message)
    else
      call report(icecore_latest(self%handle, snapshot%handle), stat, message)
    end if
  end subroutine

  ! ---- What is kept and forgotten ----

  ! From the next icecore_compact() on. Durable when it returns.
  subroutine store_set_retention(self, retention, stat, message)
    class(icecore_store), intent(in) :: self
    type(icecore_retention), intent(in) :: retention
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    if (is_missing(self%handle, 'the store', stat, message)) return
    call set_retention_of(self%handle, retention, stat, message)
  end subroutine

  subroutine store_get_retention(self, retention, stat, message)
    class(icecore_store), intent(in) :: self
    type(icecore_retention), intent(out) :: retention
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    if (is_missing(self%handle, 'the store', stat, message)) return
    call get_retention_of(self%handle, retention, stat, message)
  end subroutine

  ! Whether icecore_compact() gave the version up: reading it is ICECORE_VERSION_EXPIRED.
  logical function store_is_expired(self, version, stat, message) result(expired)
    class(icecore_store), intent(in) :: self
    integer(icecore_version), intent(in) :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    expired = .false.
    if (is_missing(self%handle, 'the store', stat, message)) return
    expired = is_expired_in(self%handle, version, stat, message)
  end function

  ! Holds the closed version `at`, or the newest one: it does not expire until the name is released, whatever the
  ! retention. `version` is the one that is held. Durable when it returns.
  subroutine store_hold(self, name, at, version, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: name
    integer(icecore_version), intent(in), optional :: at
    integer(icecore_version), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    if (present(version)) version = 0
    if (is_missing(self%handle, 'the store', stat, message)) return
    call hold_in(self%handle, name, at, version, stat, message)
  end subroutine

  subroutine store_release_version(self, name, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    if (is_missing(self%handle, 'the store', stat, message)) return
    call release_in(self%handle, name, stat, message)
  end subroutine

  ! All holds as they are now, by version.
  subroutine store_holds(self, holds, stat, message)
    class(icecore_store), intent(in) :: self
    type(icecore_hold), allocatable, intent(out) :: holds(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    if (is_missing(self%handle, 'the store', stat, message)) return
    call holds_of(self%handle, holds, stat, message)
  end subroutine

  ! Removes keys, and those that begin with a prefix, and has the next icecore_compact() erase them from all versions.
  ! `key` and `prefix` are taken as they are, elements of `keys` and `prefixes` without their trailing blanks.
  subroutine store_forget(self, key, prefix, keys, prefixes, note, told, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in), optional :: key, prefix, keys(:), prefixes(:), note
    type(icecore_forget_report), intent(out), optional :: told
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    if (is_missing(self%handle, 'the store', stat, message)) return
    call forget_in(self%handle, key, prefix, keys, prefixes, note, told, stat, message)
  end subroutine

  ! ---- Histories and differences ----

  subroutine store_history(self, key, history, oldest_first, stat, message)
    class(icecore_store), intent(in) :: self
    character(len=*), intent(in) :: key
    type(icecore_history), intent(inout) :: history
    logical, intent(in), optional :: oldest_first
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int) :: order

    call history%close()
    if (is_missing(self%handle, 'the store', stat, message)) return
    order = 0
    if (present(oldest_first)) order = merge(1, 0, oldest_first)
    call report(icecore_history_open(self%handle, key, len(key, c_size_t), order, history%handle), stat, message)
  end subroutine

  ! The next record; false past the end, or where stat says that something failed.
  logical function history_next(self, version, value, stat, message) result(there)
    class(icecore_history), intent(inout) :: self
    integer(icecore_version), intent(out) :: version
    character(len=:), allocatable, intent(out) :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(icecore_change_c) :: change
    integer(c_int) :: code

    there = .false.
    version = 0
    if (is_missing(self%handle, 'the history', stat, message)) return
    code = icecore_history_next(self%handle, change)
    call report(code, stat, message)
    there = code == ICECORE_OK .and. change%version /= 0
    version = change%version
    if (there) call copy_text(change%value, value)
  end function

  subroutine history_close(self)
    class(icecore_history), intent(inout) :: self
    if (c_associated(self%handle)) call icecore_history_close(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine history_release(self)
    type(icecore_history), intent(inout) :: self
    call self%close()
  end subroutine

  ! What differs between two closed versions, in the order of keys, with from <= key < to.
  subroutine store_diff(self, before, after, diff, from, to, stat, message)
    class(icecore_store), intent(in) :: self
    integer(icecore_version), intent(in) :: before, after
    type(icecore_diff), intent(inout) :: diff
    character(len=*), intent(in), optional, target :: from, to
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(icecore_bytes_c) :: first, past

    call diff%close()
    if (is_missing(self%handle, 'the store', stat, message)) return
    if (present(from)) first = icecore_bytes_c(c_loc(from), len(from, c_size_t))
    if (present(to)) past = icecore_bytes_c(c_loc(to), len(to, c_size_t))
    call report(icecore_diff_open(self%handle, before, after, first%data, first%size, past%data, past%size, diff%handle), &
                stat, message)
  end subroutine

  ! The next difference; before or after is not allocated where the key was not there. False past the end.
  logical function diff_next(self, key, before, after, stat, message) result(there)
    class(icecore_diff), intent(inout) :: self
    character(len=:), allocatable, intent(out) :: key, before, after
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(icecore_difference_c) :: difference
    integer(c_int) :: code

    there = .false.
    if (is_missing(self%handle, 'the difference', stat, message)) return
    code = icecore_diff_next(self%handle, difference)
    call report(code, stat, message)
    there = code == ICECORE_OK .and. c_associated(difference%key%data)
    if (.not. there) return
    call copy_text(difference%key, key)
    call copy_text(difference%before, before)
    call copy_text(difference%after, after)
  end function

  subroutine diff_close(self)
    class(icecore_diff), intent(inout) :: self
    if (c_associated(self%handle)) call icecore_diff_close(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine diff_release(self)
    type(icecore_diff), intent(inout) :: self
    call self%close()
  end subroutine
end module icecore
