! The same program in Fortran, by the C interface.
program consumer
  use, intrinsic :: iso_c_binding
  implicit none

  type, bind(c) :: found
    type(c_ptr) :: data
    integer(c_size_t) :: size
    type(c_ptr) :: pin
  end type

  interface
    integer(c_int) function icecore_open(path, options, store) bind(c)
      import :: c_int, c_char, c_ptr
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: store
    end function
    integer(c_int) function icecore_insert(store, key, key_size, value, value_size, version) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t
      type(c_ptr), value :: store, version
      character(kind=c_char), intent(in) :: key(*), value(*)
      integer(c_size_t), value :: key_size, value_size
    end function
    integer(c_int) function icecore_tag_now(store, version) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: store
      integer(c_int64_t), intent(out) :: version
    end function
    integer(c_int) function icecore_find_at(store, key, key_size, at, value) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t, c_int64_t, found
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size
      integer(c_int64_t), value :: at
      type(found), intent(out) :: value
    end function
    integer(c_int) function icecore_find(store, key, key_size, value) bind(c)
      import :: c_int, c_char, c_ptr, c_size_t, found
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: key_size
      type(found), intent(out) :: value
    end function
    subroutine icecore_value_release(value) bind(c)
      import :: found
      type(found), intent(inout) :: value
    end subroutine
    integer(c_int) function icecore_close(store) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: store
    end function
    type(c_ptr) function icecore_library_version() bind(c)
      import :: c_ptr
    end function
    integer(c_size_t) function strlen(text) bind(c)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: text
    end function
  end interface

  character(len=4096) :: path
  type(c_ptr) :: store
  type(found) :: before, after
  integer(c_int64_t) :: then

  call get_command_argument(1, path)
  call check(icecore_open(trim(path)//c_null_char, c_null_ptr, store))
  call check(icecore_insert(store, 'key', 3_c_size_t, 'before', 6_c_size_t, c_null_ptr))
  call check(icecore_tag_now(store, then))
  call check(icecore_insert(store, 'key', 3_c_size_t, 'after', 5_c_size_t, c_null_ptr))
  call check(icecore_find_at(store, 'key', 3_c_size_t, then, before))
  call check(icecore_find(store, 'key', 3_c_size_t, after))
  print '(6a)', 'icecore ', text(icecore_library_version(), strlen(icecore_library_version())), ': ', &
    text(before%data, before%size), ', ', text(after%data, after%size)
  call check(icecore_close(store))
  call icecore_value_release(before)
  call icecore_value_release(after)

contains

  subroutine check(code)
    integer(c_int), intent(in) :: code
    if (code /= 0) error stop code
  end subroutine

  function text(data, length)
    type(c_ptr), intent(in) :: data
    integer(c_size_t), intent(in) :: length
    character(kind=c_char, len=length) :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(data, letters, [length])
    do i = 1, int(length)
      text(i:i) = letters(i)
    end do
  end function

end program
