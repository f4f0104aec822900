! An ordered map that never forgets, from Fortran: the stars of a small survey, catalogued in two nights, with a spectrum.
!
!   ordered_map_with_a_past_fortran [FILE]     (default: survey-fortran.ice in the current folder, made anew)
program ordered_map_with_a_past
  use icecore
  implicit none
  type(icecore_store) :: sky
  type(icecore_snapshot) :: then
  type(icecore_cursor) :: star
  type(icecore_diff) :: changes
  character(len=:), allocatable :: name, magnitude, before, after
  real(real64), allocatable :: spectrum(:)
  integer(icecore_version) :: first, second
  character(len=4096) :: path
  integer :: i

  call get_command_argument(1, path)
  if (path == '') path = 'survey-fortran.ice'
  open (newunit=i, file=path)
  close (i, status='delete')
  call sky%open(path)

  call sky%insert('Aldebaran', '0.87')
  call sky%insert('Betelgeuse', '0.42')
  call sky%insert('Sirius', '-1.46')
  call sky%insert('Sirius/spectrum', [real(real64) :: 0.25, 0.5, 1, 0.75])
  call sky%tag('night-1', version=first)
  call sky%insert('Betelgeuse', '1.64')                  ! it dims; the first night keeps its value
  call sky%remove('Aldebaran')
  call sky%insert('Sirius/spectrum', [real(real64) :: 0.25, 0.5, 1.5, 0.75])
  call sky%tag('night-2', version=second)

  call sky%at(then, tag='night-1')
  call then%cursor(star, to='Sirius/')
  write (*, '(a)', advance='no') 'night-1:'
  do while (star%next(name, magnitude))
    write (*, '(4a)', advance='no') '  ', name, ' ', magnitude
  end do
  print '(a)', ''

  call then%find('Sirius/spectrum', spectrum)
  print '(a,4f6.2)', 'spectrum of night-1:', spectrum

  write (*, '(a)', advance='no') 'night-1 to night-2:'
  call sky%diff(first, second, changes, to='Sirius/')
  do while (changes%next(name, before, after))
    if (.not. allocated(after)) after = 'gone'
    write (*, '(6a)', advance='no') '  ', name, ' ', before, ' -> ', after
  end do
  print '(a)', ''
  print '(2a)', 'Aldebaran now: ', merge('there    ', 'not there', sky%contains('Aldebaran'))
  call sky%close()
end program
