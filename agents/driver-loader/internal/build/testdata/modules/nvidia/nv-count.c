int nv_count(void);

int nv_count(void)
{
	return 0;
}
