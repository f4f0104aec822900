! What values are found in, snapshots and cursors; programs use the module icecore.
module icecore_reading
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use icecore_c
  use icecore_support
  implicit none
  private

  ! What values can be found in: a store (the present) or a snapshot.
  type, abstract, public :: icecore_readable
    type(c_ptr) :: handle = c_null_ptr  ! the object of icecore.h, for calls that this module does not have
  contains
    procedure(look_up_interface), deferred :: look_up
    procedure, private :: find_text
    procedure, private :: find_int8
    procedure, private :: find_int32
    procedure, private :: find_int64
    procedure, private :: find_real32
    procedure, private :: find_real64
    ! call readable%find(key, value [, stat, message]): value is not allocated if the key is not there.
    generic :: find => find_text, find_int8, find_int32, find_int64, find_real32, find_real64
    procedure :: contains => readable_contains
  end type icecore_readable

  abstract interface
    subroutine look_up_interface(self, key, value, code)
      import :: icecore_readable, icecore_value_c, c_int
      class(icecore_readable), intent(in) :: self
      character(len=*), intent(in) :: key
      type(icecore_value_c), intent(out) :: value
      integer(c_int), intent(out) :: code
    end subroutine
  end interface

  ! One closed version. It never changes.
  type, extends(icecore_readable), public :: icecore_snapshot
  contains
    procedure :: look_up => look_up_in_snapshot
    procedure :: version => snapshot_version
    procedure :: cursor => snapshot_cursor
    procedure :: close => snapshot_close
    final :: snapshot_release
  end type icecore_snapshot

  ! Walks over keys and values in the order of keys: do while (cursor%next(key, value)).
  type, public :: icecore_cursor
    private
    type(c_ptr) :: handle = c_null_ptr
    logical :: begun = .false.
  contains
    procedure :: next => cursor_next
    procedure :: close => cursor_close
    final :: cursor_release
  end type icecore_cursor

contains

  ! ---- Finding ----

  ! Looks a key up; false if it is not there or something failed. The caller releases what is found.
  logical function found_elements(self, key, element_bytes, found, count, stat, message) result(there)
    class(icecore_readable), intent(in) :: self
    character(len=*), intent(in) :: key
    integer(int64), intent(in) :: element_bytes
    type(icecore_value_c), intent(out) :: found
    integer(int64), intent(out) :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int) :: code
    character(len=120) :: what

    there = .false.
    count = 0
    if (is_missing(self%handle, 'what is searched', stat, message)) return
    call self%look_up(key, found, code)
    there = code == ICECORE_OK .and. c_associated(found%data)
    if (.not. there) then
      call report(code, stat, message)
      return
    end if
    count = int(found%size, int64) / element_bytes
    if (count * element_bytes /= found%size) then
      there = .false.
      write (what, '(a,i0,a,i0,a)') 'has ', found%size, ' bytes, which are no elements of ', element_bytes, &
        ': find it as the type that was inserted'
      call icecore_value_release(found)
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, 'the value of "' // key // '" ' // trim(what))
      return
    end if
    call report(code, stat, message)
  end function

  subroutine look_up_in_snapshot(self, key, value, code)
    class(icecore_snapshot), intent(in) :: self
    character(len=*), intent(in) :: key
    type(icecore_value_c), intent(out) :: value
    integer(c_int), intent(out) :: code
    type(icecore_bytes_c) :: bytes
    code = icecore_snapshot_find(self%handle, key, len(key, c_size_t), bytes)
    value = icecore_value_c(bytes%data, bytes%size, c_null_ptr)
  end subroutine

  logical function readable_contains(self, key, stat, message) result(there)
    class(icecore_readable), intent(in) :: self
    character(len=*), intent(in) :: key
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(icecore_value_c) :: found
    integer(int64) :: count
    there = found_elements(self, key, 1_int64, found, count, stat, message)
    if (there) call icecore_value_release(found)
  end function

  subroutine find_text(self, key, value, stat, message)
    class(icecore_readable), intent(in) :: self
    character(len=*), intent(in) :: key
    character(len=:), allocatable, intent(out) :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(icecore_value_c) :: found
    integer(int64) :: count
    if (.not. found_elements(self, key, 1_int64, found, count, stat, message)) return
    call copy_text(icecore_bytes_c(found%data, found%size), value)
    call icecore_value_release(found)
  end subroutine

  subroutine find_int8(self, key, value, stat, message)
    class(icecore_readable), intent(in) :: self
    character(len=*), intent(in) :: key
    integer(int8), allocatable, intent(out) :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(int8), pointer :: elements(:)
    type(icecore_value_c) :: found
    integer(int64) :: count

    if (.not. found_elements(self, key, 1_int64, found, count, stat, message)) return
    if (count > 0) then
      call c_f_pointer(found%data, elements, [count])
      value = elements
    else
      allocate (value(0))
    end if
    call icecore_value_release(found)
  end subroutine

  subroutine find_int32(self, key, value, stat, message)
    class(icecore_readable), intent(in) :: self
    character(len=*), intent(in) :: key
    integer(int32), allocatable, intent(out) :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(int32), pointer :: elements(:)
    type(icecore_value_c) :: found
    integer(int64) :: count

    if (.not. found_elements(self, key, 4_int64, found, count, stat, message)) return
    if (count > 0) then
      call c_f_pointer(found%data, elements, [count])
      value = elements
    else
      allocate (value(0))
    end if
    call icecore_value_release(found)
  end subroutine

  subroutine find_int64(self, key, value, stat, message)
    class(icecore_readable), intent(in) :: self
    character(len=*), intent(in) :: key
    integer(int64), allocatable, intent(out) :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(int64), pointer :: elements(:)
    type(icecore_value_c) :: found
    integer(int64) :: count

    if (.not. found_elements(self, key, 8_int64, found, count, stat, message)) return
    if (count > 0) then
      call c_f_pointer(found%data, elements, [count])
      value = elements
    else
      allocate (value(0))
    end if
    call icecore_value_release(found)
  end subroutine

  subroutine find_real32(self, key, value, stat, message)
    class(icecore_readable), intent(in) :: self
    character(len=*), intent(in) :: key
    real(real32), allocatable, intent(out) :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    real(real32), pointer :: elements(:)
    type(icecore_value_c) :: found
    integer(int64) :: count

    if (.not. found_elements(self, key, 4_int64, found, count, stat, message)) return
    if (count > 0) then
      call c_f_pointer(found%data, elements, [count])
      value = elements
    else
      allocate (value(0))
    end if
    call icecore_value_release(found)
  end subroutine

  subroutine find_real64(self, key, value, stat, message)
    class(icecore_readable), intent(in) :: self
    character(len=*), intent(in) :: key
    real(real64), allocatable, intent(out) :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    real(real64), pointer :: elements(:)
    type(icecore_value_c) :: found
    integer(int64) :: count

    if (.not. found_elements(self, key, 8_int64, found, count, stat, message)) return
    if (count > 0) then
      call c_f_pointer(found%data, elements, [count])
      value = elements
    else
      allocate (value(0))
    end if
    call icecore_value_release(found)
  end subroutine

  ! ---- Snapshots and cursors ----

  integer(int64) function snapshot_version(self) result(version)
    class(icecore_snapshot), intent(in) :: self
    version = 0
    if (c_associated(self%handle)) version = icecore_snapshot_version(self%handle)
  end function

  subroutine snapshot_close(self)
    class(icecore_snapshot), intent(inout) :: self
    if (c_associated(self%handle)) call icecore_snapshot_close(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine snapshot_release(self)
    type(icecore_snapshot), intent(inout) :: self
    call self%close()
  end subroutine

  ! A cursor over all keys, over those that begin with `prefix`, or over from <= key < to.
  subroutine snapshot_cursor(self, cursor, prefix, from, to, stat, message)
    class(icecore_snapshot), intent(in) :: self
    type(icecore_cursor), intent(inout) :: cursor
    character(len=*), intent(in), optional :: prefix
    character(len=*), intent(in), optional, target :: from, to
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    type(icecore_bytes_c) :: first, past
    integer(c_int) :: code

    call cursor%close()
    if (is_missing(self%handle, 'the snapshot', stat, message)) return
    if (present(prefix) .and. (present(from) .or. present(to))) then
      call report(int(ICECORE_INVALID_ARGUMENT, c_int), stat, message, 'a cursor has either a prefix or bounds: leave one out')
      return
    end if
    if (present(from)) first = icecore_bytes_c(c_loc(from), len(from, c_size_t))
    if (present(to)) past = icecore_bytes_c(c_loc(to), len(to, c_size_t))
    if (present(prefix)) then
      code = icecore_cursor_open_prefix(self%handle, prefix, len(prefix, c_size_t), cursor%handle)
    else
      code = icecore_cursor_open(self%handle, first%data, first%size, past%data, past%size, cursor%handle)
    end if
    call report(code, stat, message)
  end subroutine

  ! Moves to the next pair and gives it; false past the end, or where stat says that something failed.
  logical function cursor_next(self, key, value, stat, message) result(there)
    class(icecore_cursor), intent(inout) :: self
    character(len=:), allocatable, intent(out) :: key
    character(len=:), allocatable, intent(out), optional :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    integer(c_int) :: code

    there = .false.
    if (is_missing(self%handle, 'the cursor', stat, message)) return
    if (.not. self%begun) then
      code = icecore_cursor_seek_first(self%handle)
    else if (icecore_cursor_valid(self%handle) == 0) then
      code = ICECORE_OK  ! past the end it stays there
    else
      code = icecore_cursor_next(self%handle)
    end if
    self%begun = .true.
    call report(code, stat, message)
    if (code == ICECORE_OK) there = icecore_cursor_valid(self%handle) /= 0
    if (.not. there) return
    call copy_text(icecore_cursor_key(self%handle), key)
    if (present(value)) call copy_text(icecore_cursor_value(self%handle), value)
  end function

  subroutine cursor_close(self)
    class(icecore_cursor), intent(inout) :: self
    if (c_associated(self%handle)) call icecore_cursor_close(self%handle)
    self%handle = c_null_ptr
    self%begun = .false.
  end subroutine

  subroutine cursor_release(self)
    type(icecore_cursor), intent(inout) :: self
    call self%close()
  end subroutine
end module icecore_reading
