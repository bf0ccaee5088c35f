package storetest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Refuse makes a database refuse the first attempt of each transaction: as the server does that finds at the commit that another
// transaction was in the way (serialization_failure). So whatever writes there runs at least twice. Of transactions that run side by side
// some are refused more often.
func Refuse(t testing.TB, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	// A sequence is not rolled back, a setting of the transaction is.
	statements := []string{"CREATE SEQUENCE refusals", `CREATE FUNCTION refuse_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('ironyard.judged', true) IS DISTINCT FROM '1' THEN
			PERFORM set_config('ironyard.judged', '1', true);
			IF nextval('refusals') % 2 = 1 THEN
				RAISE EXCEPTION 'another transaction is in the way, says the test' USING ERRCODE = '40001';
			END IF;
		END IF;
		RETURN NULL;
	END $$`}
	rows, err := conn.Query(t.Context(), "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' "+
		"AND table_type = 'BASE TABLE' AND table_name NOT IN ('schema_migrations', 'write_turns')")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) == 0 {
		t.Fatal("the tables of the database:", tables, err)
	}
	for _, name := range tables {
		statements = append(statements, fmt.Sprintf("CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE OR DELETE ON %s "+
			"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_first()", pgx.Identifier{name}.Sanitize()))
	}
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%v: %.100s", err, s)
		}
	}
}

// Refusals is how often such a database has refused a transaction.
func Refusals(t testing.TB, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT CASE WHEN is_called THEN (last_value + 1) / 2 ELSE 0 END FROM refusals").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
