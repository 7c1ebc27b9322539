
/* ---- Types of elements ----------------------------------------------------------------------------------- */

/* Each list calls X(type, name, Y) for each type of a set; name is that of the type in function names. A DISTINCT list
 * leaves out types that are the same as another one: int64_t is long. */
