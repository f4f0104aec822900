! Which versions a store keeps, what it forgets, and packing. The module icecore shows all of this.
module icecore_upkeep
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use icecore_c
  use icecore_support
  implicit none
  private
  public :: icecore_compact, set_retention_of, get_retention_of, is_expired_in, forget_in

  ! Which closed versions stay when the store is compacted: those that any component wants; all, if none wants any.
  type, public :: icecore_retention
    logical :: tagged = .false.                  ! versions that have a tag with a name, a note or a time
    integer(int64) :: newest = 0                 ! so many of the newest versions
    integer(int64) :: younger_than_seconds = 0   ! versions younger than this, by the times of tags
    integer :: hourly = 0, daily = 0, weekly = 0 ! the newest tag of each of so many hours, days, weeks that have one
  end type icecore_retention

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

  type, bind(c) :: forget_report_c
    integer(c_size_t) :: struct_size
    integer(c_int64_t) :: up_to, keys
    character(kind=c_char) :: tag(40)
  end type forget_report_c

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
    integer(c_int) function c_forget(store, keys, key_count, prefixes, prefix_count, note, note_size, told) &
      bind(c, name='icecore_forget')
      import :: c_int, c_ptr, c_size_t, icecore_bytes_c, forget_report_c
      type(c_ptr), value :: store, note
      type(icecore_bytes_c), intent(in) :: keys(*), prefixes(*)
      integer(c_size_t), value :: key_count, prefix_count, note_size
      type(forget_report_c), intent(inout) :: told
    end function
    integer(c_int) function c_compact(path, options, whole, threads, on_progress, context, told) bind(c, name='icecore_compact')
      import :: c_int, c_char, c_ptr, c_funptr, compaction_report_c
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: options, context
      integer(c_int), value :: whole, threads
      type(c_funptr), value :: on_progress
      type(compaction_report_c), intent(inout) :: told
    end function
    integer(c_int) function c_compact_compressed(path, options, whole, threads, level, on_progress, context, told) &
      bind(c, name='icecore_compact_compressed')
      import :: c_int, c_char, c_ptr, c_funptr, compaction_report_c
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: options, context
      integer(c_int), value :: whole, threads, level
      type(c_funptr), value :: on_progress
      type(compaction_report_c), intent(inout) :: told
    end function
    integer(c_int) function c_expire(path, options, whole, dry_run, threads, level, on_progress, context, told) &
      bind(c, name='icecore_expire')
      import :: c_int, c_char, c_ptr, c_funptr, compaction_report_c
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: options, context
      integer(c_int), value :: whole, dry_run, threads, level
      type(c_funptr), value :: on_progress
      type(compaction_report_c), intent(inout) :: told
    end function
    integer(c_int) function c_compact_dry_run(path, options, whole, threads, told) bind(c, name='icecore_compact_dry_run')
      import :: c_int, c_char, c_ptr, compaction_report_c
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: options
      integer(c_int), value :: whole, threads
      type(compaction_report_c), intent(inout) :: told
    end function
  end interface

contains

  ! Packs the store at `path`, which nobody may have open: its versions lie side by side in the order of keys then, and
  ! those that its retention does not keep expire. `whole` packs once more what is packed already. `dry_run` only counts
  ! what would go. `only_if_expiring`: nothing is packed unless versions expire. `compression_level`, from 1 to 19,
  ! compresses what is packed now. `threads`: 0 for all cores.
  subroutine icecore_compact(path, told, whole, dry_run, only_if_expiring, threads, compression_level, stat, message)
    character(len=*), intent(in) :: path
    type(icecore_compaction_report), intent(out), optional :: told
    logical, intent(in), optional :: whole, dry_run, only_if_expiring
    integer, intent(in), optional :: threads, compression_level
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(compaction_report_c) :: done
    integer(c_int) :: code, all_of_it, side_by_side, level
    logical :: only_counts, only_expires

    if (scan(path, c_null_char) /= 0) then
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, 'a path may not hold char(0)')
      return
    end if
    all_of_it = 0
    if (present(whole)) all_of_it = merge(1, 0, whole)
    only_counts = .false.
    if (present(dry_run)) only_counts = dry_run
    only_expires = .false.
    if (present(only_if_expiring)) only_expires = only_if_expiring
    level = 0
    if (present(compression_level)) level = int(compression_level, c_int)
    side_by_side = 0
    if (present(threads)) side_by_side = int(threads, c_int)
    if (side_by_side < 0) then
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, 'threads must be 0 or more')
      return
    end if
    done%struct_size = c_sizeof(done)
    if (only_expires) then
      code = c_expire(trim(path) // c_null_char, c_null_ptr, all_of_it, merge(1_c_int, 0_c_int, only_counts), &
                      side_by_side, level, c_null_funptr, c_null_ptr, done)
    else if (only_counts) then
      code = c_compact_dry_run(trim(path) // c_null_char, c_null_ptr, all_of_it, side_by_side, done)
    else if (present(compression_level)) then
      code = c_compact_compressed(trim(path) // c_null_char, c_null_ptr, all_of_it, side_by_side, &
                                  level, c_null_funptr, c_null_ptr, done)
    else
      code = c_compact(trim(path) // c_null_char, c_null_ptr, all_of_it, side_by_side, c_null_funptr, c_null_ptr, done)
    end if
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
