(ns bank.books
  "The books: accounts and a ledger in a database, by plain JDBC that blocks."
  (:import
   (java.sql Connection DriverManager PreparedStatement ResultSet)))

(set! *warn-on-reflection* true)

(def embedded
  "The address of a database in this JVM."
  "jdbc:h2:mem:bank;DB_CLOSE_DELAY=-1;LOCK_TIMEOUT=5000")

(defn- statement ^PreparedStatement [^Connection connection ^String sql parameters]
  (let [statement (.prepareStatement connection sql)]
    (doseq [[i x] (map-indexed vector parameters)]
      (.setObject statement (inc (long i)) x))
    statement))

(defn- update! [connection sql & parameters]
  (with-open [statement (statement connection sql parameters)]
    (.executeUpdate statement)))

(defn- numbers
  "The first row that the query gives, as numbers."
  [connection sql & parameters]
  (with-open [statement (statement connection sql parameters)
              ^ResultSet rows (.executeQuery statement)]
    (when (.next rows)
      (mapv #(.getLong rows (int (inc (long %)))) (range (.getColumnCount (.getMetaData rows)))))))

(defn connect
  "A connection to the database at the address."
  ^Connection [^String url]
  (DriverManager/getConnection url))

(defn open
  "Makes new tables, with n accounts of this balance each."
  [url n balance]
  (with-open [c (connect url)]
    (update! c "DROP TABLE IF EXISTS ledger")
    (update! c "DROP TABLE IF EXISTS account")
    (update! c "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL)")
    (update! c "CREATE TABLE ledger (payer INT NOT NULL, payee INT NOT NULL, amount BIGINT NOT NULL)")
    (dotimes [id n]
      (update! c "INSERT INTO account VALUES (?, ?)" id balance))))

(defn balance
  "What an account holds."
  [url id]
  (with-open [c (connect url)]
    (first (numbers c "SELECT balance FROM account WHERE id = ?" id))))

(defn- lock
  "Locks two accounts, always the smaller number first: so no two transfers wait for each other."
  [c a b]
  (doseq [id (sort [a b])]
    (numbers c "SELECT balance FROM account WHERE id = ? FOR UPDATE" id)))

(defn- move [c payer payee amount between]
  (update! c "UPDATE account SET balance = balance - ? WHERE id = ?" amount payer)
  (between)
  (update! c "UPDATE account SET balance = balance + ? WHERE id = ?" amount payee)
  (update! c "INSERT INTO ledger VALUES (?, ?, ?)" payer payee amount))

(defn transfer
  "Moves an amount from one account to another, in one transaction; (between) is called after the debit and before the credit."
  [url payer payee amount between]
  (with-open [c (connect url)]
    (.setAutoCommit c false)
    (try
      (lock c payer payee)
      (move c payer payee amount between)
      (.commit c)
      (catch Throwable t
        (.rollback c)
        (throw t)))))

(defn careless-transfer
  "The same without a transaction: a process that dies in between leaves the debit behind."
  [url payer payee amount between]
  (with-open [c (connect url)]
    (move c payer payee amount between)))

(defn audit
  "What is in the books: {:total :transfers :wrong}, where :wrong is how many accounts do not hold what the ledger says."
  [url start]
  (with-open [c (connect url)]
    (let [[total] (numbers c "SELECT SUM(balance) FROM account")
          [transfers] (numbers c "SELECT COUNT(*) FROM ledger")
          [wrong] (numbers c (str "SELECT COUNT(*) FROM account a WHERE balance <> ?"
                                  " + COALESCE((SELECT SUM(amount) FROM ledger WHERE payee = a.id), 0)"
                                  " - COALESCE((SELECT SUM(amount) FROM ledger WHERE payer = a.id), 0)")
                           start)]
      {:total total :transfers transfers :wrong wrong})))
