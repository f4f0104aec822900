! Which versions a store keeps, what it forgets, and packing. The module icecore shows all of this.
module icecore_upkeep
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use icecore_c
  use icecore_support
  implicit none
  private
  public :: icecore_compact, set_retention_of, get_retention_of, is_expired_in, forget_in
  public :: hold_in, release_in, holds_of

  ! Which closed versions stay when the store is compacted: those that any component wants; all, if none wants any.
  type, public :: icecore_retention
    logical :: tagged = .false.                  ! versions that have a tag with a name, a note or a time
    integer(int64) :: newest = 0                 ! so many of the newest versions
    integer(int64) :: younger_than_seconds = 0   ! versions younger than this, by the times of tags
    integer :: hourly = 0, daily = 0, weekly = 0 ! the newest tag of each of so many hours, days, weeks that have one
  end type icecore_retention

  ! A version that does not expire until it is released by this name.
  type, public :: icecore_hold
    character(len=:), allocatable :: name
    integer(int64) :: version = 0
    integer(int64) :: created_ns = 0             ! nanoseconds since 1970-01-01 UTC
  end type icecore_hold

  type, public :: icecore_forget_report
    integer(int64) :: up_to = 0                  ! what was written in later versions stays
    integer(int64) :: keys = 0                   ! that the store had, in whatever version
    character(len=:), allocatable :: tag         ! the name of the tag that says so
  end type icecore_forget_report

  ! icecore_upkeep.h says what each number means.
  type, public :: icecore_compaction_report
    logical :: packed = .false.
    integer(int64) :: keys = 0, records = 0, strata = 0, up_to = 0
    integer(int64) :: bytes_before = 0, bytes_after = 0, bytes_written = 0
    integer(int64) :: versions_expired = 0, records_dropped = 0
    logical :: erased = .false.
  end type icecore_compaction_report

  type, bind(c) :: retention_c
    integer(c_size_t) :: struct_size
    integer(c_int) :: tagged
    integer(c_int64_t) :: newest, younger_than_seconds
    integer(c_int32_t) :: hourly, daily, weekly
  end type retention_c

  type, bind(c) :: hold_c
    type(icecore_bytes_c) :: name
    integer(c_int64_t) :: version, created_ns
  end type hold_c
  integer(c_int64_t), parameter :: present_c = -1 ! ICECORE_VERSION_PRESENT: all bits are set

  type, bind(c) :: forget_report_c
    integer(c_size_t) :: struct_size
    integer(c_int64_t) :: up_to, keys
    character(kind=c_char) :: tag(40)
  end type forget_report_c

  type, bind(c) :: compaction_options_c
    integer(c_size_t) :: struct_size
    integer(c_int) :: whole = 0, dry_run = 0, only_if_expiring = 0, threads = 0, compression_level = 0
    integer(c_int64_t) :: bytes_per_second = 0, bytes_at_once = 0
    type(c_funptr) :: on_progress = c_null_funptr
    type(c_ptr) :: progress_context = c_null_ptr
  end type compaction_options_c

  type, bind(c) :: compaction_report_c
    integer(c_size_t) :: struct_size
    integer(c_int) :: packed
    integer(c_int64_t) :: keys, records, strata, up_to, bytes_before, bytes_after, bytes_written
    integer(c_int64_t) :: versions_expired, records_dropped
    integer(c_int) :: erased
  end type compaction_report_c

  interface
    integer(c_int) function c_set_retention(store, retention) bind(c, name='icecore_set_retention')
      import :: c_int, c_ptr, retention_c
      type(c_ptr), value :: store
      type(retention_c), intent(in) :: retention
    end function
    integer(c_int) function c_get_retention(store, retention) bind(c, name='icecore_get_retention')
      import :: c_int, c_ptr, retention_c
      type(c_ptr), value :: store
      type(retention_c), intent(inout) :: retention
    end function
    integer(c_int) function c_is_expired(store, version, expired) bind(c, name='icecore_is_expired')
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: store
      integer(c_int64_t), value :: version
      integer(c_int), intent(out) :: expired
    end function
    integer(c_int) function c_hold_version(store, name, name_size, at, held) bind(c, name='icecore_hold_version')
      import :: c_int, c_char, c_ptr, c_size_t, c_int64_t
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: name_size
      integer(c_int64_t), value :: at
      integer(c_int64_t), intent(out) :: held
    end function
    integer(c_int) function c_release_version(store, name, name_size) bind(c, name='icecore_release_version')
      import :: c_int, c_char, c_ptr, c_size_t
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: name_size
    end function
    integer(c_int) function c_held_versions(store, holds) bind(c, name='icecore_held_versions')
      import :: c_int, c_ptr
      type(c_ptr), value :: store
      type(c_ptr), intent(out) :: holds
    end function
    integer(c_size_t) function c_holds_count(holds) bind(c, name='icecore_holds_count')
      import :: c_size_t, c_ptr
      type(c_ptr), value :: holds
    end function
    type(c_ptr) function c_holds_next(holds) bind(c, name='icecore_holds_next')
      import :: c_ptr
      type(c_ptr), value :: holds
    end function
    subroutine c_holds_close(holds) bind(c, name='icecore_holds_close')
      import :: c_ptr
      type(c_ptr), value :: holds
    end subroutine
    integer(c_int) function c_forget(store, keys, key_count, prefixes, prefix_count, note, note_size, told) &
      bind(c, name='icecore_forget')
      import :: c_int, c_ptr, c_size_t, icecore_bytes_c, forget_report_c
      type(c_ptr), value :: store, note
      type(icecore_bytes_c), intent(in) :: keys(*), prefixes(*)
      integer(c_size_t), value :: key_count, prefix_count, note_size
      type(forget_report_c), intent(inout) :: told
    end function
    integer(c_int) function c_compact(path, options, how, told) bind(c, name='icecore_compact')
      import :: c_int, c_char, c_ptr, compaction_options_c, compaction_report_c
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: options
      type(compaction_options_c), intent(in) :: how
      type(compaction_report_c), intent(inout) :: told
    end function
  end interface

contains

  ! Packs the store at `path`, which nobody may have open: its versions lie side by side in the order of keys then, and
  ! those that its retention does not keep expire. `whole` packs once more what is packed already. `dry_run` only counts
  ! what would go. `only_if_expiring`: nothing is packed unless versions expire. `compression_level`, from 1 to 19,
  ! compresses what is packed now. `threads`: 0 for all cores. `bytes_per_second`: written at most; 0: no limit.
  ! `bytes_at_once`: a large merge is done by ranges of keys with so many; 0: icecore_upkeep.h says how.
  subroutine icecore_compact(path, told, whole, dry_run, only_if_expiring, threads, compression_level, bytes_per_second, &
                             bytes_at_once, stat, message)
    character(len=*), intent(in) :: path
    type(icecore_compaction_report), intent(out), optional :: told
    logical, intent(in), optional :: whole, dry_run, only_if_expiring
    integer, intent(in), optional :: threads, compression_level
    integer(int64), intent(in), optional :: bytes_per_second, bytes_at_once
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(compaction_options_c) :: how
    type(compaction_report_c) :: done
    integer(c_int) :: code

    if (scan(path, c_null_char) /= 0) then
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, 'a path may not hold char(0)')
      return
    end if
    how%struct_size = c_sizeof(how)
    if (present(whole)) how%whole = merge(1, 0, whole)
    if (present(dry_run)) how%dry_run = merge(1, 0, dry_run)
    if (present(only_if_expiring)) how%only_if_expiring = merge(1, 0, only_if_expiring)
    if (present(threads)) how%threads = int(threads, c_int)
    if (present(compression_level)) how%compression_level = int(compression_level, c_int)
    if (present(bytes_per_second)) how%bytes_per_second = bytes_per_second
    if (present(bytes_at_once)) how%bytes_at_once = bytes_at_once
    if (how%threads < 0 .or. how%bytes_per_second < 0 .or. how%bytes_at_once < 0) then
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, &
                  'threads, bytes_per_second and bytes_at_once must be 0 or more')
      return
    end if
    done%struct_size = c_sizeof(done)
    code = c_compact(trim(path) // c_null_char, c_null_ptr, how, done)
    call report(code, stat, message)
    if (code /= ICECORE_OK .or. .not. present(told)) return
    told = icecore_compaction_report(done%packed /= 0, done%keys, done%records, done%strata, done%up_to, &
                                     done%bytes_before, done%bytes_after, done%bytes_written, &
                                     done%versions_expired, done%records_dropped, done%erased /= 0)
  end subroutine

  subroutine set_retention_of(handle, retention, stat, message)
    type(c_ptr), intent(in) :: handle
    type(icecore_retention), intent(in) :: retention
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(retention_c) :: set
    integer(int64) :: least

    least = min(retention%newest, retention%younger_than_seconds, int(retention%hourly, int64), &
                int(retention%daily, int64), int(retention%weekly, int64))
    if (least < 0) then
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, 'no number of a retention may be negative')
      return
    end if
    set%struct_size = c_sizeof(set)
    set%tagged = merge(1, 0, retention%tagged)
    set%newest = retention%newest
    set%younger_than_seconds = retention%younger_than_seconds
    set%hourly = int(retention%hourly, c_int32_t)
    set%daily = int(retention%daily, c_int32_t)
    set%weekly = int(retention%weekly, c_int32_t)
    call report(c_set_retention(handle, set), stat, message)
  end subroutine

  subroutine get_retention_of(handle, retention, stat, message)
    type(c_ptr), intent(in) :: handle
    type(icecore_retention), intent(out) :: retention
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(retention_c) :: kept
    integer(c_int) :: code

    kept%struct_size = c_sizeof(kept)
    code = c_get_retention(handle, kept)
    call report(code, stat, message)
    if (code /= ICECORE_OK) return
    retention = icecore_retention(kept%tagged /= 0, kept%newest, kept%younger_than_seconds, &
                                  int(kept%hourly), int(kept%daily), int(kept%weekly))
  end subroutine

  logical function is_expired_in(handle, version, stat, message) result(expired)
    type(c_ptr), intent(in) :: handle
    integer(int64), intent(in) :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int) :: answer

    answer = 0
    call report(c_is_expired(handle, version, answer), stat, message)
    expired = answer /= 0
  end function

  subroutine hold_in(handle, name, at, version, stat, message)
    type(c_ptr), intent(in) :: handle
    character(len=*), intent(in) :: name
    integer(int64), intent(in), optional :: at
    integer(int64), intent(out), optional :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int64_t) :: wanted, held

    wanted = present_c
    if (present(at)) then
      if (at < 0) then
        call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, 'no version is negative')
        return
      end if
      wanted = at
    end if
    call report(c_hold_version(handle, name, len(name, c_size_t), wanted, held), stat, message)
    if (present(version)) version = held
  end subroutine

  subroutine release_in(handle, name, stat, message)
    type(c_ptr), intent(in) :: handle
    character(len=*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    call report(c_release_version(handle, name, len(name, c_size_t)), stat, message)
  end subroutine

  subroutine holds_of(handle, holds, stat, message)
    type(c_ptr), intent(in) :: handle
    type(icecore_hold), allocatable, intent(out) :: holds(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(c_ptr) :: all
    type(hold_c), pointer :: each
    integer(c_int) :: code
    integer :: i

    code = c_held_versions(handle, all)
    call report(code, stat, message)
    if (code /= ICECORE_OK) return
    allocate (holds(c_holds_count(all)))
    do i = 1, size(holds)
      call c_f_pointer(c_holds_next(all), each)
      call copy_text(each%name, holds(i)%name)
      holds(i)%version = each%version
      holds(i)%created_ns = each%created_ns
    end do
    call c_holds_close(all)
  end subroutine

  subroutine forget_in(handle, key, prefix, keys, prefixes, note, told, stat, message)
    type(c_ptr), intent(in) :: handle
    character(len=*), intent(in), optional, target :: key, prefix, keys(:), prefixes(:), note
    type(icecore_forget_report), intent(out), optional :: told
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(icecore_bytes_c), allocatable :: named(:), beginnings(:)
    type(icecore_bytes_c) :: remark
    type(forget_report_c) :: done
    integer(c_int) :: code

    call list(key, keys, named)
    call list(prefix, prefixes, beginnings)
    if (present(note)) remark = icecore_bytes_c(c_loc(note), len(note, c_size_t))
    done%struct_size = c_sizeof(done)
    code = c_forget(handle, named, size(named, kind=c_size_t), beginnings, size(beginnings, kind=c_size_t), &
                    remark%data, remark%size, done)
    call report(code, stat, message)
    if (code /= ICECORE_OK .or. .not. present(told)) return
    told%up_to = done%up_to
    told%keys = done%keys
    told%tag = text_of(done%tag)
  end subroutine

  ! One text as it is, and those of an array without their trailing blanks.
  subroutine list(one, several, all)
    character(len=*), intent(in), optional, target :: one, several(:)
    type(icecore_bytes_c), allocatable, intent(out) :: all(:)
    integer :: i, count

    count = 0
    if (present(several)) count = size(several)
    allocate (all(count + merge(1, 0, present(one))))
    do i = 1, count
      all(i) = icecore_bytes_c(c_loc(several(i)), len_trim(several(i), c_size_t))
    end do
    if (present(one)) all(count + 1) = icecore_bytes_c(c_loc(one), len(one, c_size_t))
  end subroutine

  ! What is before char(0).
  function text_of(letters) result(text)
    character(kind=c_char), intent(in) :: letters(:)
    character(len=:), allocatable :: text
    integer :: i

    text = ''
    do i = 1, size(letters)
      if (letters(i) == c_null_char) exit
      text = text // letters(i)
    end do
  end function
end module icecore_upkeep
