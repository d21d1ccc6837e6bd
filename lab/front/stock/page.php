<?php
// A page of some milliseconds of processor time, and a wait as for a database.
$x = 'x';
for ($i = 0; $i < (int)$_GET['rounds']; $i++) {
    $x = md5($x);
}
usleep((int)$_GET['wait']);
echo $x;
